use std::fmt;

use ferrite_proto::error::reason;
use tonic::{Code, Status};

/// Why a command is not carried out. Becomes one line on the client's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is none of git's.
    UnknownCommand,
    /// Its argument names no repository.
    InvalidPath,
    /// The repository does not exist, or not for this caller.
    Missing,
    /// The caller may look at it only.
    NotAuthorized,
    /// The same for a key that is no user's.
    KeyNotAuthorized,
    /// The key was removed after the sign-in.
    KeyRemoved,
    /// The repository follows another one; nobody pushes to it.
    Mirror,
    /// A service cannot be reached or has no room now.
    Unavailable,
    /// git-svc was lost in the middle.
    Interrupted,
    /// A fault of ours.
    Internal,
}

impl Refusal {
    /// What a caller hears when repo-svc answers with `status`.
    pub(super) fn of_status(status: &Status, is_user: bool) -> Self {
        match (status.code(), reason(status)) {
            (Code::NotFound | Code::InvalidArgument, Some(_)) => Self::Missing,
            (Code::PermissionDenied, Some(_)) if is_user => Self::NotAuthorized,
            (Code::PermissionDenied, Some(_)) => Self::KeyNotAuthorized,
            (Code::Unauthenticated, Some(_)) => Self::KeyRemoved,
            (Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled, _)
            | (Code::ResourceExhausted, Some(_)) => {
                tracing::warn!(code = ?status.code(), "repo-svc cannot say who may reach a repository");
                Self::Unavailable
            }
            (code, _) => {
                tracing::error!(?code, message = status.message(), "repo-svc failed to say who may reach a repository");
                Self::Internal
            }
        }
    }

    /// The word for it in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnknownCommand => "unknown_command",
            Self::InvalidPath => "invalid_path",
            Self::Missing => "missing",
            Self::NotAuthorized | Self::KeyNotAuthorized => "not_authorized",
            Self::KeyRemoved => "key_removed",
            Self::Mirror => "mirror",
            Self::Unavailable => "unavailable",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::UnknownCommand => "Unknown git command",
            Self::InvalidPath => "Invalid repository path",
            Self::Missing => "Repository does not exist or you do not have access",
            Self::NotAuthorized => "You do not have sufficient authorization for this action",
            Self::KeyNotAuthorized => "Key permission denied",
            Self::KeyRemoved => "This key is not registered any more",
            Self::Mirror => "Mirror repository is read-only",
            Self::Unavailable => "The service is not available now; try again later",
            Self::Interrupted => "The connection to the repository was lost",
            Self::Internal => "Internal error",
        })
    }
}
