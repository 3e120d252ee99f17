//! Reasons why an import or a sync fails. Their texts are stable and neutral: users see them, so they hold nothing that the remote
//! sent, no address and no words of libraries.

use ferrite_outbound::SendError;
use git_store::{git::fsck::Finding, types::error::GitError};

use crate::rpc_error::RpcError;

/// The reason why a repository could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// No connection, no answer, or an answer that says that the server is out of order.
    #[error("the remote cannot be reached")]
    Unreachable,
    /// An address that is neither public nor permitted, at first or after a redirect.
    #[error("the address is not allowed")]
    RefusedAddress,
    /// The remote wants credentials, or others.
    #[error("the remote asks for credentials, or refuses these")]
    Credentials,
    /// The remote knows no repository there.
    #[error("there is no repository at this address")]
    NotFound,
    /// A sign-in page, the dumb protocol, or anything else.
    #[error("the address does not answer in git's smart protocol")]
    NotSmart,
    /// Another hash function.
    #[error("the repository has object ids that are not SHA-1")]
    ObjectFormat,
    /// More branches, tags and notes than are taken.
    #[error("the repository has more than {limit} branches and tags")]
    TooManyRefs {
        /// The limit.
        limit: usize,
    },
    /// Refs that no store of files can hold, or that lead to objects of the wrong kind.
    #[error("the repository has branches or tags that cannot be stored")]
    BadRefs,
    /// More bytes than are taken.
    #[error("the repository is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// More bytes than the quota of the owner leaves.
    #[error("the repositories of the account take {used} bytes of its quota of {limit}")]
    Quota {
        /// Bytes that they take.
        used: u64,
        /// Bytes that they may take.
        limit: u64,
    },
    /// Nothing, or next to nothing, was received for too long.
    #[error("the remote was silent or too slow")]
    Idle,
    /// Less than the minimum rate was received after the first minutes.
    #[error("the remote sent less than {limit} bytes a second")]
    TooSlow {
        /// The minimum.
        limit: u64,
    },
    /// The whole transfer took too long.
    #[error("the transfer took too long")]
    TimedOut,
    /// Objects that do not pass the checks that pushed ones have to pass.
    #[error("the repository has objects that are not valid{}", .finding.as_ref().map(described).unwrap_or_default())]
    BadObjects {
        /// What git found in which object, if it says so.
        finding: Option<Finding>,
    },
    /// Objects beyond the limits of pushed ones, each or in all.
    #[error("the repository has objects that are too large")]
    OversizedObjects,
    /// git used up the CPU time for what it received.
    #[error("the repository takes too long to unpack")]
    CpuTime,
    /// An object that was listed is no longer sent.
    #[error("the repository changed again and again during the transfer")]
    Changed,
    /// The transfer broke off.
    #[error("the transfer failed")]
    Broken,
    /// The store's disk is full.
    #[error("the store is full")]
    StoreFull,
    /// The credentials were sealed with another key.
    #[error("the credentials cannot be opened any more: give them again")]
    Sealed,
    /// The process stops, or the repository is being deleted.
    #[error("the transfer was stopped")]
    Stopped,
    /// A fault of the service, which is logged.
    #[error("an internal error")]
    Internal(#[source] RpcError),
}

fn described(finding: &Finding) -> String {
    format!(": `{}` in the object {}", finding.message_id, finding.object)
}

impl FetchError {
    /// Label in metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::RefusedAddress => "refused_address",
            Self::Credentials => "credentials",
            Self::NotFound => "not_found",
            Self::NotSmart => "not_smart",
            Self::ObjectFormat => "object_format",
            Self::TooManyRefs { .. } => "too_many_refs",
            Self::BadRefs => "bad_refs",
            Self::TooLarge { .. } => "too_large",
            Self::Quota { .. } => "quota",
            Self::Idle => "idle",
            Self::TooSlow { .. } => "too_slow",
            Self::TimedOut => "timed_out",
            Self::BadObjects { .. } => "bad_objects",
            Self::OversizedObjects => "oversized_objects",
            Self::CpuTime => "cpu_time",
            Self::Changed => "changed",
            Self::Broken => "broken",
            Self::StoreFull => "store_full",
            Self::Sealed => "sealed",
            Self::Stopped => "stopped",
            Self::Internal(_) => "internal",
        }
    }

    /// Logs the cause of a fault of the service, which the text for users does not contain.
    pub(super) fn log(&self) {
        if let Self::Internal(error) = self {
            error.log();
        }
    }
}

impl From<SendError> for FetchError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::RefusedAddress => Self::RefusedAddress,
            SendError::NotHttp | SendError::HeadTooLarge => Self::NotSmart,
            SendError::CannotResolve
            | SendError::CannotConnect
            | SendError::Tls(_)
            | SendError::ConnectTimedOut
            | SendError::ConnectionLost => Self::Unreachable,
            SendError::TimedOut => Self::Idle,
        }
    }
}

impl From<RpcError> for FetchError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Git(GitError::StoreFull) => Self::StoreFull,
            error => Self::Internal(error),
        }
    }
}

impl From<GitError> for FetchError {
    fn from(error: GitError) -> Self {
        RpcError::from(error).into()
    }
}

impl From<ferrite_db::DbError> for FetchError {
    fn from(error: ferrite_db::DbError) -> Self {
        RpcError::from(error).into()
    }
}
