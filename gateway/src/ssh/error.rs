//! Errors of commands over SSH: one line on the client's standard error, and a label in metrics.

use ferrite_proto::error::reason;
use ferrite_rpc::grpc::is_connection_lost;
use tonic::{Code, Status};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SshCommandError {
    #[error("Unknown git command")]
    UnknownCommand,
    #[error("Invalid repository path")]
    InvalidPath,
    /// The repository is missing, or hidden from the caller.
    #[error("Repository does not exist or you do not have access")]
    Missing,
    #[error("You do not have sufficient authorization for this action")]
    NotAuthorized,
    #[error("Key permission denied")]
    KeyNotAuthorized,
    #[error("This key is no longer registered")]
    KeyRemoved,
    #[error("Mirror repository is read-only")]
    MirrorReadOnly,
    #[error("Repository is archived and cannot be changed")]
    Archived,
    /// A service cannot be reached or is at a limit.
    #[error("The service is temporarily unavailable; try again later")]
    Unavailable,
    /// git-svc is at a limit, in total or for the caller, with its line of text.
    #[error("{0}")]
    Busy(String),
    #[error("The connection to the repository was lost")]
    Interrupted,
    /// A bug or a broken installation. The log has the cause.
    #[error("Internal error")]
    Internal,
}

impl SshCommandError {
    pub(super) fn of_status(status: &Status, is_user: bool) -> Self {
        match (status.code(), reason(status)) {
            (Code::NotFound | Code::InvalidArgument, Some(_)) => Self::Missing,
            (Code::PermissionDenied, Some(reason)) if reason == "REPOSITORY_ARCHIVED" => Self::Archived,
            (Code::PermissionDenied, Some(_)) if is_user => Self::NotAuthorized,
            (Code::PermissionDenied, Some(_)) => Self::KeyNotAuthorized,
            (Code::Unauthenticated, Some(_)) => Self::KeyRemoved,
            (Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled, _)
            | (Code::ResourceExhausted, Some(_)) => {
                tracing::warn!(code = ?status.code(), "repo-svc is unavailable, cannot resolve access");
                Self::Unavailable
            }
            (_, None) if is_connection_lost(status) => {
                tracing::warn!("connection to repo-svc lost");
                Self::Unavailable
            }
            (code, _) => {
                tracing::error!(?code, message = status.message(), "repo-svc failed to resolve access");
                Self::Internal
            }
        }
    }

    /// Returns the label in metrics.
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
