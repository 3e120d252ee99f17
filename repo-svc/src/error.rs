//! The errors of this service, and their conversion to gRPC statuses.
//!
//! Not here: the tables from kinds to gRPC codes (proto) and from codes to HTTP (gateway).

use std::time::Duration;

use ferrite_db::DbError;
use ferrite_db::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_rpc::auth::AuthError;
use tonic::{Code, Status};

/// Errors of repo-svc, with a kind and a stable reason each.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// Fields of the request break rules.
    #[error("{}", first_violation(.0))]
    Invalid(Vec<FieldViolation>),
    /// There is no such user or organization.
    #[error("user does not exist")]
    UserNotFound,
    /// The user has no such token.
    #[error("token does not exist")]
    TokenNotFound,
    /// There is no such organization; a user of that name does not count.
    #[error("organization does not exist")]
    OrganizationNotFound,
    /// There is no such team, or it is hidden from the caller.
    #[error("team does not exist")]
    TeamNotFound,
    /// The user is not a member, or its membership is hidden from the caller.
    #[error("member does not exist")]
    MemberNotFound,
    /// The account or repository has no such key.
    #[error("key does not exist")]
    KeyNotFound,
    /// The user is no collaborator of the repository.
    #[error("collaborator does not exist")]
    CollaboratorNotFound,
    /// The caller does not watch the repository.
    #[error("repository is not watched")]
    WatchNotFound,
    /// The repository does not have the topic.
    #[error("topic does not exist")]
    TopicNotFound,
    /// The repository has no such release, or it is a draft that the caller may not see.
    #[error("release does not exist")]
    ReleaseNotFound,
    /// The release has no such file.
    #[error("file does not exist")]
    AssetNotFound,
    /// The repository has the most releases that are allowed.
    #[error("the repository has {limit} releases, which is the limit")]
    ReleaseLimit {
        /// The limit.
        limit: i64,
    },
    /// The release has the most files that are allowed.
    #[error("the release has {limit} files, which is the limit")]
    AssetLimit {
        /// The limit.
        limit: i64,
    },
    /// There is no such import, or it is hidden from the caller.
    #[error("import does not exist")]
    ImportNotFound,
    /// The caller is not a member of the organization.
    #[error("members of the organization only")]
    OrganizationMemberRequired,
    /// The caller does not own the organization.
    #[error("owners of the organization only")]
    OrganizationOwnerRequired,
    /// A user or a repository holds the key already.
    #[error("key is already in use")]
    KeyUsed,
    /// The account or repository has a key of that title.
    #[error("key title `{0}` is already in use")]
    KeyTitleUsed(String),
    /// The organization has a team of that name.
    #[error("team `{0}` already exists")]
    TeamExists(String),
    /// An organization must keep an owner.
    #[error("the last owner of an organization cannot be removed")]
    LastOwner,
    /// The change is not allowed for the team of owners.
    #[error("the team of owners cannot be changed in this way")]
    OwnersTeam,
    /// The account owns repositories.
    #[error("the account still owns repositories")]
    OwnsRepositories,
    /// The user is a member of organizations.
    #[error("the user still belongs to organizations")]
    BelongsToOrganizations,
    /// The site must keep an administrator.
    #[error("the last administrator of the site cannot be removed")]
    LastAdministrator,
    /// The account has reached its limit of creations.
    #[error("too much was created in a short time: at most {limit} within an hour; try again later")]
    TooManyCreations {
        /// Creations within an hour.
        limit: u64,
        /// Time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The operation has no row in the permission table, or looks up something that its rule does not provide for.
    #[error("`{operation}` is not in the permission table")]
    UnlistedOperation {
        /// Name of the operation.
        operation: String,
    },
    /// The owner has a repository of that name.
    #[error("repository `{owner}/{name}` already exists")]
    RepositoryExists {
        /// The field of the request that asks for the name.
        field: &'static str,
        /// Name of the owner.
        owner: String,
        /// Name of the repository.
        name: String,
    },
    /// The name is a former one of a repository that the caller may see.
    #[error("repository has moved to `{owner}/{name}`")]
    RepositoryMoved {
        /// Name of the owner.
        owner: String,
        /// Name of the repository.
        name: String,
    },
    /// No transfer of the repository waits.
    #[error("transfer does not exist")]
    TransferNotFound,
    /// A transfer of the repository waits already.
    #[error("a transfer of the repository waits for its new owner already")]
    TransferPending,
    /// As many transfers that the caller started wait as may.
    #[error("{limit} transfers that you started wait for their new owners, which is the limit")]
    TransferLimit {
        /// The limit.
        limit: i64,
    },
    /// The caller is not the new owner of a transfer, and owns no organization that is.
    #[error("the new owner only")]
    TransferReceiverRequired,
    /// The account has reached its limit of repositories.
    #[error("the account owns {used} repositories, and may own {limit}")]
    RepositoryLimit {
        /// Repositories that it owns.
        used: i64,
        /// The limit.
        limit: i64,
    },
    /// As many organizations were made for the user as may be.
    #[error("the user created {used} organizations, and may create {limit}")]
    OrganizationLimit {
        /// Organizations that were made for it, and exist.
        used: i64,
        /// The limit.
        limit: i64,
    },
    /// The repositories of the account take as many bytes as they may, or would.
    #[error("the repositories of the account take {used} bytes of its quota of {limit}")]
    StorageQuota {
        /// Bytes that they take.
        used: i64,
        /// The limit.
        limit: i64,
    },
    /// The repository is the end of a chain of forks of forks that may not be longer.
    #[error("a chain of forks of forks has at most {limit} repositories")]
    ForksTooDeep {
        /// The limit.
        limit: i64,
    },
    /// A user or organization has that name.
    #[error("user `{0}` already exists")]
    UserExists(String),
    /// An account has that e-mail address.
    #[error("e-mail address is already in use")]
    EmailUsed,
    /// An account has one of several e-mail addresses.
    #[error("e-mail address is already in use")]
    OneOfEmailsUsed,
    /// The user has a token of that name.
    #[error("token `{0}` already exists")]
    TokenExists(String),
    /// The tokens belong to another user.
    #[error("tokens of another user")]
    NotYourTokens,
    /// Too many wrong passwords for the account or from the address.
    #[error("too many wrong passwords; try again later")]
    TooManyAttempts {
        /// Time to wait before the next attempt.
        retry_after: Duration,
    },
    /// Too many passwords are waiting to be checked.
    #[error("too many sign-ins at once")]
    Busy,
    /// git-svc cannot be reached.
    #[error("the git store cannot be reached")]
    StoreUnavailable,
    /// No git store has a weight above zero.
    #[error("no git store takes new repositories")]
    NoOpenStore,
    /// The git stores that respond have no more space than the reserve.
    #[error("no git store has space for a new repository")]
    NoStoreSpace,
    /// There is no such git store.
    #[error("store does not exist")]
    StoreNotFound,
    /// Repositories are placed on the git store.
    #[error("the store still has repositories")]
    StoreNotEmpty,
    /// There are as many git stores as there may be.
    #[error("there are {limit} stores, which is the limit")]
    StoreLimit {
        /// The limit.
        limit: i64,
    },
    /// The write was interrupted and undone.
    #[error("the operation was interrupted")]
    Interrupted,
    /// git-svc refused the request for a reason that concerns the caller. Its status is passed on unchanged.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    /// git-svc failed.
    #[error("git store failure: {0}")]
    Storage(String),
    /// The password library failed.
    #[error("password hashing failed: {0}")]
    Hashing(String),
    /// The caller is not authenticated, or lacks a permission.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A repeated write whose response cannot be given.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    /// The database failed.
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl From<FieldViolation> for RepoError {
    fn from(violation: FieldViolation) -> Self {
        Self::Invalid(vec![violation])
    }
}

fn first_violation(violations: &[FieldViolation]) -> String {
    violations.first().map_or_else(
        || "request is not valid".to_owned(),
        |violation| format!("`{}`: {}", violation.field, violation.message),
    )
}

impl RepoError {
    /// Returns an [`RepoError::Invalid`] with one violation.
    pub(crate) fn field(field: &str, code: &'static str, message: &str) -> Self {
        FieldViolation::new(field, code, message).into()
    }

    /// Returns the error for a git store that cannot be reached, or that failed for no reason that concerns the caller.
    pub(crate) fn of_store(status: &Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Self::StoreUnavailable,
            code => Self::Storage(format!("{code:?}: {}", status.message())),
        }
    }

    /// Returns an [`RepoError::RepositoryExists`] for the name in `field` of the request.
    pub(crate) fn repository_exists(field: &'static str, owner: &str, name: &str) -> Self {
        Self::RepositoryExists { field, owner: owner.to_owned(), name: name.to_owned() }
    }

    /// Returns the field whose value another account, repository, team, key or token has already.
    fn taken_field(&self) -> Option<&'static str> {
        match self {
            Self::UserExists(_) => Some("username"),
            Self::EmailUsed => Some("email"),
            Self::OneOfEmailsUsed => Some("emails"),
            Self::RepositoryExists { field, .. } => Some(*field),
            Self::TeamExists(_) | Self::TokenExists(_) => Some("name"),
            Self::KeyUsed => Some("key"),
            Self::KeyTitleUsed(_) => Some("title"),
            _ => None,
        }
    }
}

impl ServiceError for RepoError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::Invalid(_) | Self::Refused(_) => (Kind::InvalidArgument, "INVALID_FIELDS"),
            Self::UserNotFound => (Kind::NotFound, "USER_NOT_FOUND"),
            Self::TokenNotFound => (Kind::NotFound, "TOKEN_NOT_FOUND"),
            Self::OrganizationNotFound => (Kind::NotFound, "ORGANIZATION_NOT_FOUND"),
            Self::TeamNotFound => (Kind::NotFound, "TEAM_NOT_FOUND"),
            Self::MemberNotFound => (Kind::NotFound, "MEMBER_NOT_FOUND"),
            Self::KeyNotFound => (Kind::NotFound, "KEY_NOT_FOUND"),
            Self::CollaboratorNotFound => (Kind::NotFound, "COLLABORATOR_NOT_FOUND"),
            Self::WatchNotFound => (Kind::NotFound, "WATCH_NOT_FOUND"),
            Self::TopicNotFound => (Kind::NotFound, "TOPIC_NOT_FOUND"),
            Self::ReleaseNotFound => (Kind::NotFound, "RELEASE_NOT_FOUND"),
            Self::AssetNotFound => (Kind::NotFound, "ASSET_NOT_FOUND"),
            Self::ReleaseLimit { .. } => (Kind::FailedPrecondition, "RELEASE_LIMIT_REACHED"),
            Self::AssetLimit { .. } => (Kind::FailedPrecondition, "ASSET_LIMIT_REACHED"),
            Self::ImportNotFound => (Kind::NotFound, "MIGRATION_NOT_FOUND"),
            Self::OrganizationMemberRequired => (Kind::PermissionDenied, "ORGANIZATION_MEMBER_REQUIRED"),
            Self::OrganizationOwnerRequired => (Kind::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED"),
            Self::KeyUsed => (Kind::AlreadyExists, "KEY_ALREADY_USED"),
            Self::KeyTitleUsed(_) => (Kind::AlreadyExists, "KEY_TITLE_ALREADY_USED"),
            Self::TeamExists(_) => (Kind::AlreadyExists, "TEAM_ALREADY_EXISTS"),
            Self::LastOwner => (Kind::FailedPrecondition, "LAST_OWNER"),
            Self::OwnersTeam => (Kind::FailedPrecondition, "OWNERS_TEAM"),
            Self::OwnsRepositories => (Kind::FailedPrecondition, "ACCOUNT_OWNS_REPOSITORIES"),
            Self::BelongsToOrganizations => (Kind::FailedPrecondition, "USER_BELONGS_TO_ORGANIZATIONS"),
            Self::LastAdministrator => (Kind::FailedPrecondition, "LAST_ADMINISTRATOR"),
            Self::TooManyCreations { .. } => (Kind::RateLimited, "TOO_MANY_CREATIONS"),
            Self::RepositoryExists { .. } => (Kind::AlreadyExists, "REPOSITORY_ALREADY_EXISTS"),
            Self::RepositoryLimit { .. } => (Kind::FailedPrecondition, "REPOSITORY_LIMIT_REACHED"),
            Self::OrganizationLimit { .. } => (Kind::FailedPrecondition, "ORGANIZATION_LIMIT_REACHED"),
            Self::StorageQuota { .. } => (Kind::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED"),
            Self::ForksTooDeep { .. } => (Kind::FailedPrecondition, "FORKS_TOO_DEEP"),
            Self::RepositoryMoved { .. } => (Kind::NotFound, "REPOSITORY_MOVED"),
            Self::TransferNotFound => (Kind::NotFound, "TRANSFER_NOT_FOUND"),
            Self::TransferPending => (Kind::FailedPrecondition, "TRANSFER_PENDING"),
            Self::TransferLimit { .. } => (Kind::FailedPrecondition, "TRANSFER_LIMIT_REACHED"),
            Self::TransferReceiverRequired => (Kind::PermissionDenied, "TRANSFER_RECEIVER_REQUIRED"),
            Self::UserExists(_) => (Kind::AlreadyExists, "USER_ALREADY_EXISTS"),
            Self::EmailUsed | Self::OneOfEmailsUsed => (Kind::AlreadyExists, "EMAIL_ALREADY_USED"),
            Self::TokenExists(_) => (Kind::AlreadyExists, "TOKEN_ALREADY_EXISTS"),
            Self::NotYourTokens => (Kind::PermissionDenied, "NOT_YOUR_TOKENS"),
            Self::TooManyAttempts { .. } => (Kind::RateLimited, "TOO_MANY_ATTEMPTS"),
            Self::Busy => (Kind::Overloaded, "BUSY"),
            Self::StoreUnavailable => (Kind::Overloaded, "STORE_UNAVAILABLE"),
            Self::NoOpenStore => (Kind::Overloaded, "NO_OPEN_STORE"),
            // The reason of a store whose disk is full.
            Self::NoStoreSpace => (Kind::FailedPrecondition, "STORE_FULL"),
            Self::StoreNotFound => (Kind::NotFound, "STORE_NOT_FOUND"),
            Self::StoreNotEmpty => (Kind::FailedPrecondition, "STORE_NOT_EMPTY"),
            Self::StoreLimit { .. } => (Kind::FailedPrecondition, "STORE_LIMIT_REACHED"),
            Self::Interrupted => (Kind::Aborted, "INTERRUPTED"),
            Self::Storage(_) | Self::Hashing(_) | Self::UnlistedOperation { .. } => (Kind::Internal, "INTERNAL"),
            Self::Store(error) => error.classify(),
            Self::Auth(error) => error.classify(),
            Self::Idempotency(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        "repo"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            _ => {
                let taken = self.taken_field().map(|field| FieldViolation::new(field, "taken", self.to_string()));
                taken.into_iter().collect()
            }
        }
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::RepositoryMoved { owner, name } => vec![("owner", owner.clone()), ("name", name.clone())],
            _ => Vec::new(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyAttempts { retry_after } | Self::TooManyCreations { retry_after, .. } => Some(*retry_after),
            Self::Busy | Self::StoreUnavailable | Self::NoOpenStore => Some(Duration::from_secs(1)),
            Self::Store(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<RepoError> for Status {
    fn from(error: RepoError) -> Self {
        match error {
            RepoError::Refused(status) => *status,
            // Converted by the kit, so that all services report them alike.
            RepoError::Auth(error) => error.into(),
            RepoError::Idempotency(error) => error.into(),
            error => {
                if let RepoError::Store(cause) = &error {
                    cause.log("a request");
                } else if error.kind() == Kind::Internal {
                    tracing::error!(cause = ?error, "request failed: {error}");
                }
                to_status(&error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::error::violations;

    use super::*;

    #[test]
    fn the_message_names_the_first_field_before_a_colon() {
        let error = RepoError::Invalid(vec![
            FieldViolation::new("scopes", "unknown", "there is no scope `nope`"),
            FieldViolation::new("name", "required", "is required"),
        ]);
        assert_eq!(error.to_string(), "`scopes`: there is no scope `nope`");
    }

    #[test]
    fn what_is_taken_names_its_field_and_keeps_its_message() {
        for (error, field, message) in [
            (RepoError::UserExists("ada".to_owned()), "username", "user `ada` already exists"),
            (RepoError::EmailUsed, "email", "e-mail address is already in use"),
            (RepoError::OneOfEmailsUsed, "emails", "e-mail address is already in use"),
            (RepoError::TeamExists("dev".to_owned()), "name", "team `dev` already exists"),
            (RepoError::TokenExists("ci".to_owned()), "name", "token `ci` already exists"),
            (RepoError::KeyUsed, "key", "key is already in use"),
            (RepoError::KeyTitleUsed("bot".to_owned()), "title", "key title `bot` is already in use"),
            (
                RepoError::repository_exists("repo_name", "ada", "demo"),
                "repo_name",
                "repository `ada/demo` already exists",
            ),
        ] {
            let status = Status::from(error);
            let expected = vec![(field.to_owned(), "taken".to_owned(), message.to_owned())];
            assert_eq!((status.code(), violations(&status)), (Code::AlreadyExists, expected));
            assert_eq!(status.message(), message);
        }
    }
}
