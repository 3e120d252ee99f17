use ferrite_proto::id::RepositoryId;

/// The owner of a webhook. The hook receives the events of this repository, of all repositories of
/// this organization, or all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Site,
    /// An organization, by its account id.
    Organization(i64),
    Repository(RepositoryId),
}

impl Owner {
    /// The column `owner_kind`.
    pub(crate) fn kind(self) -> i64 {
        match self {
            Self::Site => 0,
            Self::Organization(_) => 1,
            Self::Repository(_) => 2,
        }
    }

    /// The column `owner_id`.
    pub(crate) fn id(self) -> i64 {
        match self {
            Self::Site => 0,
            Self::Organization(id) | Self::Repository(RepositoryId(id)) => id,
        }
    }

    /// Returns `None` for an unknown kind.
    pub(crate) fn from_columns(kind: i64, id: i64) -> Option<Self> {
        match kind {
            0 => Some(Self::Site),
            1 => Some(Self::Organization(id)),
            2 => Some(Self::Repository(RepositoryId(id))),
            _ => None,
        }
    }

    pub(crate) fn repository(self) -> Option<RepositoryId> {
        match self {
            Self::Repository(id) => Some(id),
            Self::Site | Self::Organization(_) => None,
        }
    }
}
