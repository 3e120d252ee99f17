use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo;

/// Who may see an organization. Users are public.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Visibility {
    #[default]
    Public,
    /// Signed-in users.
    Limited,
    /// Members.
    Private,
}

impl Visibility {
    /// Decodes a column. Unknown numbers, of a later version, count as private.
    pub(crate) fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Public,
            1 => Self::Limited,
            _ => Self::Private,
        }
    }

    /// Encodes a column.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Public => 0,
            Self::Limited => 1,
            Self::Private => 2,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Limited => "limited",
            Self::Private => "private",
        }
    }

    pub(crate) fn parse(number: i32, field: &str) -> Result<Self, FieldViolation> {
        match repo::Visibility::try_from(number) {
            Ok(repo::Visibility::Unspecified | repo::Visibility::Public) => Ok(Self::Public),
            Ok(repo::Visibility::Limited) => Ok(Self::Limited),
            Ok(repo::Visibility::Private) => Ok(Self::Private),
            Err(_) => Err(FieldViolation::new(field, "unknown", "must be `public`, `limited` or `private`")),
        }
    }
}

impl From<Visibility> for repo::Visibility {
    fn from(visibility: Visibility) -> Self {
        match visibility {
            Visibility::Public => Self::Public,
            Visibility::Limited => Self::Limited,
            Visibility::Private => Self::Private,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visibility_is_stored_and_sent_as_it_is() {
        for visibility in [Visibility::Public, Visibility::Limited, Visibility::Private] {
            assert_eq!(Visibility::from_number(visibility.number()), visibility);
            let sent = repo::Visibility::from(visibility).into();
            assert_eq!(Visibility::parse(sent, "visibility"), Ok(visibility));
        }
        assert_eq!(Visibility::from_number(9), Visibility::Private);
        assert_eq!(Visibility::parse(0, "visibility"), Ok(Visibility::Public));
        let refused = Visibility::parse(9, "visibility").unwrap_err();
        assert_eq!((refused.field.as_str(), refused.code), ("visibility", "unknown"));
    }
}
