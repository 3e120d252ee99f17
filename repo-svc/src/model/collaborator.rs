use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;

pub(crate) fn parse_level(text: &str, field: &str) -> Result<Permission, FieldViolation> {
    level_named(text).ok_or_else(|| FieldViolation::new(field, "invalid", "must be `read`, `write` or `admin`"))
}

/// Accepts only the levels that a collaborator or team can have.
pub(crate) fn level_named(text: &str) -> Option<Permission> {
    match text {
        "read" => Some(Permission::Read),
        "write" => Some(Permission::Write),
        "admin" => Some(Permission::Admin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn collaborators_have_one_of_three_levels() {
        for level in [Permission::Read, Permission::Write, Permission::Admin] {
            assert_eq!(parse_level(&level.to_string(), "permission"), Ok(level));
        }
        for bad in ["", "READ", "owner", "none", " read", "push"] {
            let violation = parse_level(bad, "permission").unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("permission", "invalid"), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_level_is_spelled_in_one_way(text in any::<String>()) {
            if let Ok(level) = parse_level(&text, "permission") {
                prop_assert_eq!(level.to_string(), text);
            }
        }
    }
}
