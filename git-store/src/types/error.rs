//! The errors of the git core, with their kinds, reasons and field violations.

use std::{io, path::PathBuf, time::Duration};

use ferrite_proto::{
    error::{FieldViolation, Kind, ServiceError},
    grant::ByteQuota,
};

/// The action that a branch protection rule denies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The rule does not list the account.
    #[error("you are not allowed to push to it")]
    Pusher,
    /// A force push.
    #[error("force pushes are not allowed")]
    Force,
    /// The deletion of the branch.
    #[error("it cannot be deleted")]
    Delete,
    /// The rule does not list the account as one that merges pull requests.
    #[error("you are not allowed to merge into it")]
    Merger,
    /// The head of a pull request does not contain all commits of its base.
    #[error("the head is behind the branch")]
    Behind,
    /// The commit lacks successful statuses that the rule requires.
    #[error("required status checks have not succeeded: {missing}")]
    Checks {
        /// Names a few of the contexts.
        missing: String,
    },
    /// The pull request has fewer approvals than the rule requires.
    #[error("the pull request has {count} of {required} required approvals")]
    Approvals {
        /// The approvals that count.
        count: usize,
        /// The approvals that the rule requires.
        required: usize,
    },
    /// A reviewer rejects the pull request.
    #[error("a reviewer requests changes of the pull request")]
    Rejection,
    /// A reviewer has not answered yet.
    #[error("a requested review of the pull request is missing")]
    ReviewRequest,
}

/// An error of the git core.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The repository does not exist on this store.
    #[error("repository not found")]
    RepositoryNotFound,
    /// The branch does not exist.
    #[error("branch not found")]
    BranchNotFound,
    /// The tag does not exist, or leads to no commit.
    #[error("tag not found")]
    TagNotFound,
    /// The revision names no commit.
    #[error("revision not found")]
    RevisionNotFound,
    /// No commit has this id.
    #[error("commit not found")]
    CommitNotFound,
    /// The ref does not exist.
    #[error("ref not found")]
    RefNotFound,
    /// No object of the expected kind has this id.
    #[error("object not found")]
    ObjectNotFound,
    /// The path does not exist.
    #[error("path not found")]
    PathNotFound,
    /// The wiki has no such page.
    #[error("wiki page not found")]
    WikiPageNotFound,
    /// One field of the request is invalid.
    #[error("`{}`: {}", .0.field, .0.message)]
    Invalid(FieldViolation),
    /// Two commits have no common ancestor.
    #[error("the commits have no common history")]
    NoCommonHistory,
    /// The branch to move has commits that the other has not.
    #[error("the branches have diverged, so a fast-forward is not possible")]
    NotFastForward,
    /// A merge or revert that would not change anything.
    #[error("there is nothing to merge")]
    NothingToMerge,
    /// The commit would not change anything.
    #[error("the file already has this content")]
    UnchangedContent,
    /// The repository is a mirror of a remote.
    #[error("the repository is a mirror and cannot be written")]
    MirrorReadOnly,
    /// The blob at the path is not the one that the caller expects.
    #[error("`sha`: does not match the current file")]
    StaleBlob,
    /// The blob of one of several files is not the one that the caller expects.
    #[error("`files[{index}].sha`: does not match the current file")]
    StaleFile {
        /// Index of the file in the request.
        index: usize,
    },
    /// The file on the branch does not meet the precondition of the request.
    #[error("precondition failed")]
    Precondition {
        /// The short name of the branch.
        branch: Vec<u8>,
    },
    /// The branch protection rule does not exist.
    #[error("protection rule not found")]
    ProtectionNotFound,
    /// The repository has as many branch protection rules as it may have.
    #[error("the repository already has {limit} protection rules, the maximum")]
    TooManyProtections {
        /// The maximum number of rules.
        limit: usize,
    },
    /// The commit has statuses of as many contexts as it may have.
    #[error("the commit already has statuses of {limit} contexts, the maximum")]
    TooManyStatuses {
        /// The maximum number of contexts.
        limit: usize,
    },
    /// A branch protection rule denies the change.
    #[error("protected branch: {denial}")]
    BranchProtected {
        /// The denied action.
        denial: Denial,
    },
    /// A branch with this name exists.
    #[error("branch already exists")]
    BranchExists,
    /// A tag with this name exists.
    #[error("tag already exists")]
    TagExists,
    /// A release has the tag, or is about to get it.
    #[error("a release has this tag: delete the release first")]
    TagInUse,
    /// The branch is the default branch, which cannot be deleted.
    #[error("the default branch cannot be deleted")]
    DefaultBranch,
    /// The repository has no import on this store.
    #[error("import not found")]
    ImportNotFound,
    /// The repository is not a mirror.
    #[error("the repository is not a mirror")]
    NotAMirror,
    /// The import queue is full.
    #[error("the import queue is full")]
    TooManyImports,
    /// The user's share of the import queue is full.
    #[error("you already have {limit} imports in the queue, the maximum")]
    TooManyImportsOfUser {
        /// The limit.
        limit: u64,
    },
    /// The ref is not at the expected value, or is locked by another writer.
    #[error("`{name}` has changed or is locked")]
    RefConflict {
        /// The ref's full name.
        name: String,
    },
    /// The name of the ref collides with another: `a` and `a/b` cannot both exist.
    #[error("`{name}` collides with another ref")]
    RefNameClash {
        /// The ref's full name.
        name: String,
    },
    /// The ref cannot point to this object: it is missing, or not a commit and the ref is a branch.
    #[error("`{name}` cannot point to this object")]
    RefTarget {
        /// The ref's full name.
        name: String,
    },
    /// The request names another store.
    #[error("this store does not hold the repository")]
    WrongStore,
    /// A size is above its limit.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// The limit, in the unit of `what`.
        limit: u64,
    },
    /// git accepts the object, but it cannot be read here.
    #[error("{what} is malformed and cannot be read")]
    Unreadable {
        /// The object.
        what: &'static str,
    },
    /// The write would exceed the owner's storage quota.
    #[error("storage quota exceeded: {used} of {limit} bytes used")]
    StorageQuota {
        /// Bytes in use.
        used: u64,
        /// The quota in bytes.
        limit: u64,
    },
    /// The write would exceed what the owner's storage quota leaves.
    #[error("storage quota exceeded: {left} bytes are left")]
    NoRoomLeft {
        /// Bytes that may still be stored.
        left: u64,
    },
    /// Every worker is busy and the queue is full.
    #[error("the server is overloaded, try again later")]
    Overloaded,
    /// A client or a repository has reached its limit of concurrent requests of one kind.
    #[error("too many concurrent requests of this kind: at most {limit} per {holder}, try again")]
    ShareFull {
        /// The limit.
        limit: usize,
        /// The kind of holder: account, deploy key, address or repository.
        holder: &'static str,
    },
    /// An operation reached its time limit and was stopped.
    #[error("{what} took too long")]
    TimedOut {
        /// The name of the operation.
        what: &'static str,
    },
    /// Another process holds the store.
    #[error("the store `{}` is in use by another process", .0.display())]
    StoreHeld(PathBuf),
    /// The folder belongs to a store of another name.
    #[error("the folder belongs to the store `{found}`, not `{expected}`")]
    StoreIdentity {
        /// The configured name.
        expected: String,
        /// The name on disk.
        found: String,
    },
    /// No usable git program was found.
    #[error("{0}")]
    Program(String),
    /// A git process failed.
    #[error("git {command} failed with {status}: {stderr}")]
    Command {
        /// The subcommand.
        command: &'static str,
        /// The exit status.
        status: String,
        /// Start of its standard error (16 KiB), or of its standard output (1 MiB) if that is
        /// empty.
        stderr: String,
    },
    /// libgit2 returned an error.
    #[error("libgit2: {0}")]
    Git(#[from] git2::Error),
    /// A file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The client disconnected before the end of its request, so it gets no reply.
    #[error("the client disconnected")]
    ClientGone,
    /// The client sends or receives more slowly than the minimum rate.
    #[error("the client was too slow")]
    TooSlow,
    /// The git processes of a push used up the CPU time allowed for a pack of this size.
    #[error("the push took more than {seconds} s of CPU time, the limit for a pack of its size")]
    CpuTime {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The store's disk is full.
    #[error("the store's disk is full")]
    StoreFull,
    /// A bug of git-svc.
    #[error("{0}")]
    Internal(String),
}

/// When to retry an import that found the queue full.
const IMPORT_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Error kinds of a full disk: no space, quota used up, `RLIMIT_FSIZE` reached.
const FULL_KINDS: &[io::ErrorKind] =
    &[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
/// Messages of the C library for these kinds, which `LC_ALL=C` keeps constant, and one of git's.
const FULL_WORDS: &[&str] = &["No space left on device", "Disk quota exceeded", "File too large", "Out of diskspace"];

/// Returns whether a message reports a full disk.
pub fn says_full(message: &str) -> bool {
    FULL_WORDS.iter().any(|words| message.contains(words))
}

/// Returns the error of a write that exceeds the owner's quota, and counts it.
pub fn quota_exceeded(quota: ByteQuota) -> GitError {
    metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
    GitError::StorageQuota { used: quota.used, limit: quota.limit }
}

impl GitError {
    /// Returns an `Invalid` error for one field.
    pub fn invalid(field: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid(FieldViolation::new(field, code, message))
    }

    /// Returns a function for `map_err` that makes an `Io` error of the operation `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Returns whether a limit stopped a transfer. The client gets the error.
    pub fn is_transfer_limit(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::TooLarge { .. } | Self::TooSlow | Self::CpuTime { .. })
    }

    /// Returns whether the error rejects a whole ref transaction, so that no ref has changed.
    pub fn is_refused_transaction(&self) -> bool {
        matches!(
            self,
            Self::RefConflict { .. } | Self::RefNameClash { .. } | Self::RefTarget { .. } | Self::RepositoryNotFound
        )
    }

    /// Returns `StoreFull` if the cause is a full disk, else the error itself. git and libgit2
    /// report the cause only in their message.
    pub fn or_full(self) -> Self {
        let is_full = match &self {
            Self::Io { source, .. } => FULL_KINDS.contains(&source.kind()),
            Self::Git(error) => says_full(error.message()),
            Self::Command { stderr, .. } => says_full(stderr),
            _ => false,
        };
        if !is_full {
            return self;
        }
        metrics::counter!("ferrite_git_store_full_total").increment(1);
        tracing::warn!(error = %self, "the store's disk is full");
        Self::StoreFull
    }

    /// Returns whether one object cannot be read. Others still can.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Unreadable { .. })
    }

    /// Returns whether a git process needed more memory or CPU time than it may have.
    pub fn is_exhausted(&self) -> bool {
        const NO_MEMORY: &[&str] = &["Out of memory", "out of memory", "Cannot allocate memory"];
        let Self::Command { status, stderr, .. } = self else { return false };
        status.contains("SIGXCPU") || NO_MEMORY.iter().any(|words| stderr.contains(words))
    }

    /// Returns whether libgit2 did not find an object. An open repository handle may not see packs
    /// written after it was opened.
    pub fn is_missing_object(&self) -> bool {
        matches!(self, Self::Git(error) if error.code() == git2::ErrorCode::NotFound
            && matches!(error.class(), git2::ErrorClass::Odb | git2::ErrorClass::Object))
    }
}

impl ServiceError for GitError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::RepositoryNotFound => (Kind::NotFound, "REPOSITORY_NOT_FOUND"),
            Self::BranchNotFound => (Kind::NotFound, "BRANCH_NOT_FOUND"),
            Self::TagNotFound => (Kind::NotFound, "TAG_NOT_FOUND"),
            Self::RevisionNotFound => (Kind::NotFound, "REVISION_NOT_FOUND"),
            Self::CommitNotFound => (Kind::NotFound, "COMMIT_NOT_FOUND"),
            Self::RefNotFound => (Kind::NotFound, "REF_NOT_FOUND"),
            Self::ObjectNotFound => (Kind::NotFound, "OBJECT_NOT_FOUND"),
            Self::PathNotFound => (Kind::NotFound, "PATH_NOT_FOUND"),
            Self::WikiPageNotFound => (Kind::NotFound, "WIKI_PAGE_NOT_FOUND"),
            Self::NoCommonHistory => (Kind::NotFound, "NO_COMMON_HISTORY"),
            Self::ImportNotFound => (Kind::NotFound, "MIGRATION_NOT_FOUND"),
            Self::NotAMirror => (Kind::NotFound, "NOT_A_MIRROR"),
            Self::ProtectionNotFound => (Kind::NotFound, "PROTECTION_NOT_FOUND"),
            Self::TooManyImports => (Kind::RateLimited, "TOO_MANY_MIGRATIONS"),
            Self::TooManyImportsOfUser { .. } => (Kind::RateLimited, "TOO_MANY_MIGRATIONS_OF_USER"),
            Self::BranchExists => (Kind::AlreadyExists, "BRANCH_EXISTS"),
            Self::TagExists => (Kind::AlreadyExists, "TAG_EXISTS"),
            Self::TagInUse => (Kind::FailedPrecondition, "TAG_IN_USE"),
            Self::DefaultBranch => (Kind::PermissionDenied, "DEFAULT_BRANCH"),
            Self::BranchProtected { .. } => (Kind::PermissionDenied, "BRANCH_PROTECTED"),
            Self::Invalid(_) => (Kind::InvalidArgument, "INVALID_FIELDS"),
            Self::RefNameClash { .. } => (Kind::InvalidArgument, "REF_NAME_CLASH"),
            Self::RefTarget { .. } => (Kind::InvalidArgument, "REF_TARGET"),
            Self::ClientGone => (Kind::InvalidArgument, "REQUEST_BROKEN_OFF"),
            Self::TooSlow => (Kind::InvalidArgument, "REQUEST_TOO_SLOW"),
            Self::UnchangedContent => (Kind::FailedPrecondition, "UNCHANGED_CONTENT"),
            Self::NothingToMerge => (Kind::FailedPrecondition, "NOTHING_TO_MERGE"),
            Self::MirrorReadOnly => (Kind::FailedPrecondition, "MIRROR_READ_ONLY"),
            Self::WrongStore => (Kind::FailedPrecondition, "WRONG_STORE"),
            Self::TooManyProtections { .. } => (Kind::FailedPrecondition, "TOO_MANY_PROTECTIONS"),
            Self::TooManyStatuses { .. } => (Kind::FailedPrecondition, "TOO_MANY_STATUSES"),
            Self::Unreadable { .. } => (Kind::FailedPrecondition, "OBJECT_UNREADABLE"),
            Self::StoreFull => (Kind::FailedPrecondition, "STORE_FULL"),
            Self::StorageQuota { .. } | Self::NoRoomLeft { .. } => (Kind::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED"),
            Self::StaleBlob | Self::StaleFile { .. } => (Kind::Aborted, "STALE_BLOB"),
            Self::NotFastForward => (Kind::Aborted, "NOT_FAST_FORWARD"),
            Self::Precondition { .. } => (Kind::Aborted, "PRECONDITION_FAILED"),
            Self::RefConflict { .. } => (Kind::Aborted, "BRANCH_MOVED"),
            Self::TooLarge { .. } => (Kind::TooLarge, "TOO_LARGE"),
            Self::CpuTime { .. } => (Kind::TooLarge, "CPU_TIME_EXCEEDED"),
            Self::Overloaded | Self::ShareFull { .. } => (Kind::Overloaded, "OVERLOADED"),
            Self::TimedOut { .. } => (Kind::Overloaded, "TIMED_OUT"),
            Self::StoreHeld(_)
            | Self::StoreIdentity { .. }
            | Self::Program(_)
            | Self::Command { .. }
            | Self::Git(_)
            | Self::Io { .. }
            | Self::Internal(_) => (Kind::Internal, "INTERNAL"),
        }
    }

    fn domain(&self) -> &'static str {
        "git"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        let field = match self {
            Self::Invalid(violation) => return vec![violation.clone()],
            Self::UnchangedContent => "content",
            Self::StaleBlob => "sha",
            Self::StaleFile { index } => &format!("files[{index}].sha"),
            Self::TooManyProtections { .. } => "pattern",
            Self::TooManyStatuses { .. } => "context",
            Self::RefNameClash { .. } | Self::RefTarget { .. } => "branch",
            _ => return Vec::new(),
        };
        vec![FieldViolation::new(field, "invalid", self.to_string())]
    }

    fn retry_after(&self) -> Option<Duration> {
        match self.kind() {
            Kind::Overloaded => Some(Duration::from_secs(1)),
            Kind::RateLimited => Some(IMPORT_RETRY_AFTER),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_fields_are_named() {
        let error = GitError::invalid("path", "invalid", "no");
        assert_eq!((error.kind(), error.violations()[0].field.as_str()), (Kind::InvalidArgument, "path"));
        assert_eq!(GitError::StaleBlob.violations()[0].field, "sha");
        assert_eq!(GitError::UnchangedContent.kind(), Kind::FailedPrecondition);
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let full = || GitError::io("x")(io::ErrorKind::StorageFull.into());
        assert!(matches!(full().or_full(), GitError::StoreFull));
        let error = git2::Error::from_str("could not write: No space left on device");
        assert!(matches!(GitError::Git(error).or_full(), GitError::StoreFull));
        let failed = |stderr: &str| GitError::Command {
            command: "update-ref",
            status: String::new(),
            stderr: stderr.to_owned(),
        };
        assert!(matches!(failed("fatal: write error: Disk quota exceeded").or_full(), GitError::StoreFull));
        assert!(matches!(failed("fatal: sha1 file write error. Out of diskspace").or_full(), GitError::StoreFull));
        assert!(matches!(failed("fatal: broken").or_full(), GitError::Command { .. }));
        assert!(matches!(GitError::io("x")(io::ErrorKind::NotFound.into()).or_full(), GitError::Io { .. }));
        assert_eq!(
            (GitError::StoreFull.kind(), GitError::StoreFull.reason()),
            (Kind::FailedPrecondition, "STORE_FULL")
        );
    }

    #[test]
    fn only_overload_asks_to_retry() {
        assert!(GitError::Overloaded.retry_after().is_some());
        assert!(GitError::StaleBlob.retry_after().is_none());
    }
}
