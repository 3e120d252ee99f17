use ferrite_proto::id::RepositoryId;

/// The owner of a webhook: the hook gets the events of this repository, of all repositories of this organization, or all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// The site.
    Site,
    /// An organization, by its account.
    Organization(i64),
    /// A repository.
    Repository(RepositoryId),
}

impl Owner {
    /// Returns the value of the column `owner_kind`.
    pub(crate) fn kind(self) -> i64 {
        match self {
            Self::Site => 0,
            Self::Organization(_) => 1,
            Self::Repository(_) => 2,
        }
    }

    /// Returns the value of the column `owner_id`.
    pub(crate) fn id(self) -> i64 {
        match self {
            Self::Site => 0,
            Self::Organization(id) | Self::Repository(RepositoryId(id)) => id,
        }
    }

    /// Returns the owner of the two columns; `None` if the kind is unknown.
    pub(crate) fn from_columns(kind: i64, id: i64) -> Option<Self> {
        match kind {
            0 => Some(Self::Site),
            1 => Some(Self::Organization(id)),
            2 => Some(Self::Repository(RepositoryId(id))),
            _ => None,
        }
    }

    /// Returns the repository, if the owner is one.
    pub(crate) fn repository(self) -> Option<RepositoryId> {
        match self {
            Self::Repository(id) => Some(id),
            Self::Site | Self::Organization(_) => None,
        }
    }
}
