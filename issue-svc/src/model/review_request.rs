//! Requests for reviews of pull requests.

use ferrite_proto::id::UserId;

/// Who is asked for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    User(UserId),
    /// A team, by the name that it had when it was asked.
    Team {
        id: i64,
        name: String,
    },
}

/// A user or a team to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewReviewRequest {
    pub(crate) requested: Requested,
    /// Whether it is a user who can write to the repository.
    pub(crate) is_official: bool,
}

/// An open request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewRequest {
    pub(crate) id: i64,
    pub(crate) requested: Requested,
    pub(crate) is_official: bool,
    /// The head when it was made.
    pub(crate) commit_id: String,
    pub(crate) created_us: i64,
}

impl Requested {
    /// Whether both are the same user or team. The team may have been renamed.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(user), Self::User(other)) => user == other,
            (Self::Team { id, .. }, Self::Team { id: other, .. }) => id == other,
            _ => false,
        }
    }

    /// Returns the columns of the user, which is zero for a team, and of the id and the name of the
    /// team, which are zero and empty for a user.
    pub(crate) fn columns(&self) -> (i64, i64, &str) {
        match self {
            Self::User(user) => (user.0, 0, ""),
            Self::Team { id, name } => (0, *id, name),
        }
    }

    pub(crate) fn of_row(user_id: i64, team_id: i64, team_name: String) -> Self {
        match user_id {
            0 => Self::Team { id: team_id, name: team_name },
            id => Self::User(UserId(id)),
        }
    }
}
