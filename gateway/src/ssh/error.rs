//! Errors of commands over SSH: one line on the client's standard error, and a name in metrics.

use ferrite_proto::error::reason;
use ferrite_rpc::grpc::is_connection_lost;
use tonic::{Code, Status};

/// The error of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SshCommandError {
    /// The command is not one of git's.
    #[error("Unknown git command")]
    UnknownCommand,
    /// The argument is not the path of a repository.
    #[error("Invalid repository path")]
    InvalidPath,
    /// The repository is missing, or hidden from the caller.
    #[error("Repository does not exist or you do not have access")]
    Missing,
    /// The user has no permission.
    #[error("You do not have sufficient authorization for this action")]
    NotAuthorized,
    /// The deploy key has no permission.
    #[error("Key permission denied")]
    KeyNotAuthorized,
    /// The key was removed after the authentication.
    #[error("This key is not registered any more")]
    KeyRemoved,
    /// A push to a mirror.
    #[error("Mirror repository is read-only")]
    MirrorReadOnly,
    /// A push to an archived repository.
    #[error("Repository is archived and cannot be changed")]
    Archived,
    /// A service cannot be reached or is at a limit.
    #[error("The service is not available now; try again later")]
    Unavailable,
    /// git-svc has as much work as it may have, of the caller or of all, as its line says.
    #[error("{0}")]
    Busy(String),
    /// The connection to git-svc was lost.
    #[error("The connection to the repository was lost")]
    Interrupted,
    /// A bug or a broken installation; the cause is in the log.
    #[error("Internal error")]
    Internal,
}

impl SshCommandError {
    /// Converts a status of repo-svc.
    pub(super) fn of_status(status: &Status, is_user: bool) -> Self {
        match (status.code(), reason(status)) {
            (Code::NotFound | Code::InvalidArgument, Some(_)) => Self::Missing,
            (Code::PermissionDenied, Some(reason)) if reason == "REPOSITORY_ARCHIVED" => Self::Archived,
            (Code::PermissionDenied, Some(_)) if is_user => Self::NotAuthorized,
            (Code::PermissionDenied, Some(_)) => Self::KeyNotAuthorized,
            (Code::Unauthenticated, Some(_)) => Self::KeyRemoved,
            (Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled, _)
            | (Code::ResourceExhausted, Some(_)) => {
                tracing::warn!(code = ?status.code(), "repo-svc is not available to resolve access");
                Self::Unavailable
            }
            (_, None) if is_connection_lost(status) => {
                tracing::warn!("the connection to repo-svc was lost");
                Self::Unavailable
            }
            (code, _) => {
                tracing::error!(?code, message = status.message(), "repo-svc failed to resolve access");
                Self::Internal
            }
        }
    }

    /// Returns the name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::UnknownCommand => "unknown_command",
            Self::InvalidPath => "invalid_path",
            Self::Missing => "missing",
            Self::NotAuthorized | Self::KeyNotAuthorized => "not_authorized",
            Self::KeyRemoved => "key_removed",
            Self::MirrorReadOnly => "mirror",
            Self::Archived => "archived",
            Self::Unavailable | Self::Busy(_) => "unavailable",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}
