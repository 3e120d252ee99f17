//! Errors of commands over SSH: one line on the client's standard error, and a name in metrics.

use std::fmt;

use ferrite_kit::grpc::is_connection_lost;
use ferrite_proto::error::reason;
use tonic::{Code, Status};

/// The error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SshCommandError {
    /// The command is not one of git's.
    UnknownCommand,
    /// The argument is not the path of a repository.
    InvalidPath,
    /// The repository is missing, or hidden from the caller.
    Missing,
    /// The user has no permission.
    NotAuthorized,
    /// The deploy key has no permission.
    KeyNotAuthorized,
    /// The key was removed after the authentication.
    KeyRemoved,
    /// A push to a mirror.
    MirrorReadOnly,
    /// A push to an archived repository.
    Archived,
    /// A service cannot be reached or is at a limit.
    Unavailable,
    /// The connection to git-svc was lost.
    Interrupted,
    /// A bug or a broken installation; the cause is in the log.
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
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnknownCommand => "unknown_command",
            Self::InvalidPath => "invalid_path",
            Self::Missing => "missing",
            Self::NotAuthorized | Self::KeyNotAuthorized => "not_authorized",
            Self::KeyRemoved => "key_removed",
            Self::MirrorReadOnly => "mirror",
            Self::Archived => "archived",
            Self::Unavailable => "unavailable",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for SshCommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::UnknownCommand => "Unknown git command",
            Self::InvalidPath => "Invalid repository path",
            Self::Missing => "Repository does not exist or you do not have access",
            Self::NotAuthorized => "You do not have sufficient authorization for this action",
            Self::KeyNotAuthorized => "Key permission denied",
            Self::KeyRemoved => "This key is not registered any more",
            Self::MirrorReadOnly => "Mirror repository is read-only",
            Self::Archived => "Repository is archived and cannot be changed",
            Self::Unavailable => "The service is not available now; try again later",
            Self::Interrupted => "The connection to the repository was lost",
            Self::Internal => "Internal error",
        })
    }
}
