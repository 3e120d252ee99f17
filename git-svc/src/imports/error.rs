//! Reasons why an import or a sync fails. Users see the texts, so they are stable and contain no
//! address and nothing sent by the remote or a library.

use ferrite_outbound::SendError;
use git_store::{git::fsck::Finding, types::error::GitError};

use crate::rpc_error::RpcError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// No connection, no response, or a response saying that the server is down.
    #[error("the remote cannot be reached")]
    Unreachable,
    /// The address is neither public nor permitted, initially or after a redirect.
    #[error("the address is not allowed")]
    RefusedAddress,
    /// The remote requires credentials, or rejects the given ones.
    #[error("the remote requires credentials, or rejected the given ones")]
    Credentials,
    #[error("there is no repository at this address")]
    NotFound,
    /// A sign-in page, the dumb protocol, or anything else.
    #[error("the remote does not speak git's smart protocol")]
    NotSmart,
    #[error("only repositories with SHA-1 object ids are supported")]
    ObjectFormat,
    /// Counts branches, tags and notes.
    #[error("the repository has more than {limit} branches and tags")]
    TooManyRefs { limit: usize },
    /// Refs that cannot be stored as files, or that point to objects of the wrong kind.
    #[error("the repository has branches or tags that cannot be stored")]
    BadRefs,
    /// More bytes than the limit.
    #[error("the repository is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    /// More bytes than the owner's quota leaves.
    #[error("storage quota exceeded: {used} of {limit} bytes used")]
    Quota { used: u64, limit: u64 },
    /// Received (almost) nothing for too long.
    #[error("the remote stopped sending or was too slow")]
    Idle,
    /// Received less than the minimum rate after the first minutes.
    #[error("the remote sent less than {limit} bytes per second")]
    TooSlow { limit: u64 },
    #[error("the transfer took too long")]
    TimedOut,
    /// Objects that fail the checks also applied to pushes.
    #[error("the repository has invalid objects{}", .finding.as_ref().map(described).unwrap_or_default())]
    BadObjects {
        /// The defect that git reported and the object that has it, if known.
        finding: Option<Finding>,
    },
    /// Objects beyond the limits for pushes, each or in total.
    #[error("the repository has objects that are too large")]
    OversizedObjects,
    /// git used up the CPU time allowed for the received bytes.
    #[error("the repository takes too long to unpack")]
    CpuTime,
    /// An advertised object is no longer sent.
    #[error("the repository kept changing during the transfer")]
    Changed,
    #[error("the transfer failed")]
    Broken,
    #[error("the store is full")]
    StoreFull,
    /// The credentials were sealed with another key.
    #[error("the stored credentials can no longer be decrypted: enter them again")]
    Sealed,
    /// The process is stopping, or the repository is being deleted.
    #[error("the transfer was stopped")]
    Stopped,
    /// An internal error. Its cause is only logged.
    #[error("internal error")]
    Internal(#[source] RpcError),
}

fn described(finding: &Finding) -> String {
    format!(": `{}` in object {}", finding.message_id, finding.object)
}

impl FetchError {
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

    /// Logs the cause of an internal error, which the text for users leaves out.
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
