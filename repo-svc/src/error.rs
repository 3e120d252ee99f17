use std::time::Duration;

use ferrite_db::DbError;
use ferrite_db::idempotency::IdempotencyError;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, first_violation, to_status};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::is_connection_lost;
use tonic::{Code, Status};

/// Errors of repo-svc. Each has a kind and a stable reason.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    #[error("{}", first_violation(.0))]
    Invalid(Vec<FieldViolation>),
    /// No user or organization has this name.
    #[error("user does not exist")]
    UserNotFound,
    #[error("token does not exist")]
    TokenNotFound,
    /// Also if the name belongs to a user.
    #[error("organization does not exist")]
    OrganizationNotFound,
    /// Also if the team is hidden from the caller.
    #[error("team does not exist")]
    TeamNotFound,
    /// Also if the membership is hidden from the caller.
    #[error("member does not exist")]
    MemberNotFound,
    #[error("session does not exist")]
    SessionNotFound,
    #[error("key does not exist")]
    KeyNotFound,
    #[error("collaborator does not exist")]
    CollaboratorNotFound,
    #[error("repository is not watched")]
    WatchNotFound,
    #[error("topic does not exist")]
    TopicNotFound,
    /// Also for a draft that the caller cannot see.
    #[error("release does not exist")]
    ReleaseNotFound,
    #[error("file does not exist")]
    AssetNotFound,
    #[error("release limit reached: {limit} per repository")]
    ReleaseLimit { limit: i64 },
    #[error("file limit reached: {limit} per release")]
    AssetLimit { limit: i64 },
    /// Also if the import is hidden from the caller.
    #[error("import does not exist")]
    ImportNotFound,
    #[error("you must be a member of the organization")]
    OrganizationMemberRequired,
    #[error("you must be an owner of the organization")]
    OrganizationOwnerRequired,
    #[error("key is already in use")]
    KeyUsed,
    #[error("key title `{0}` is already in use")]
    KeyTitleUsed(String),
    #[error("team `{0}` already exists")]
    TeamExists(String),
    #[error("the last owner of an organization cannot be removed")]
    LastOwner,
    #[error("this change is not allowed for the owners team")]
    OwnersTeam,
    #[error("the team has all repositories of the organization")]
    TeamHasAllRepositories,
    #[error("the account still owns repositories")]
    OwnsRepositories,
    #[error("the user still belongs to organizations")]
    BelongsToOrganizations,
    #[error("the last administrator of the site cannot be removed")]
    LastAdministrator,
    #[error("limit reached: {limit} creations per hour")]
    TooManyCreations { limit: u64, retry_after: Duration },
    /// The operation is missing in the permission table, or looks up something that its rule does
    /// not cover.
    #[error("`{operation}` is not in the permission table")]
    UnlistedOperation { operation: String },
    #[error("repository `{owner}/{name}` already exists")]
    RepositoryExists {
        /// Request field that holds the name.
        field: &'static str,
        owner: String,
        name: String,
    },
    /// The name used to belong to a repository that the caller can see.
    #[error("repository has moved to `{owner}/{name}`")]
    RepositoryMoved { owner: String, name: String },
    #[error("transfer does not exist")]
    TransferNotFound,
    #[error("a transfer of the repository is already pending")]
    TransferPending,
    #[error("transfer limit reached: you have {limit} pending transfers")]
    TransferLimit { limit: i64 },
    /// The caller is not the new owner, and does not own the organization that is.
    #[error("only the new owner can accept the transfer")]
    TransferReceiverRequired,
    #[error("repository limit reached: the account owns {used}; the limit is {limit}")]
    RepositoryLimit { used: i64, limit: i64 },
    #[error("organization limit reached: the user created {used}; the limit is {limit}")]
    OrganizationLimit {
        /// Organizations that the user created and that still exist.
        used: i64,
        limit: i64,
    },
    #[error("storage quota exceeded: {used} of {limit} bytes used")]
    StorageQuota { used: i64, limit: i64 },
    #[error("a chain of forks can have at most {limit} repositories")]
    ForksTooDeep { limit: i64 },
    /// A user or organization has this name.
    #[error("user `{0}` already exists")]
    UserExists(String),
    #[error("e-mail address is already in use")]
    EmailUsed,
    /// One of several e-mail addresses in the request is taken.
    #[error("e-mail address is already in use")]
    OneOfEmailsUsed,
    #[error("token `{0}` already exists")]
    TokenExists(String),
    #[error("you can only manage your own tokens")]
    NotYourTokens,
    #[error("too many sign-ins or wrong passwords; try again later")]
    TooManyAttempts { retry_after: Duration },
    /// Too many passwords are waiting to be checked.
    #[error("too many sign-ins at once")]
    Busy,
    #[error("the git store cannot be reached")]
    StoreUnavailable,
    /// No git store has a weight above zero.
    #[error("no git store accepts new repositories")]
    NoOpenStore,
    /// All reachable git stores are down to the reserved space.
    #[error("no git store has space for a new repository")]
    NoStoreSpace,
    #[error("store does not exist")]
    StoreNotFound,
    #[error("the store still has repositories")]
    StoreNotEmpty,
    #[error("store limit reached: {limit}")]
    StoreLimit { limit: i64 },
    /// The write was interrupted and undone.
    #[error("the operation was interrupted")]
    Interrupted,
    /// git-svc rejected the request for a reason that concerns the caller. Its status is passed on
    /// unchanged.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    #[error("git store failure: {0}")]
    Storage(String),
    #[error("password hashing failed: {0}")]
    Hashing(String),
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A repeated write whose first response is not available.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl From<FieldViolation> for RepoError {
    fn from(violation: FieldViolation) -> Self {
        Self::Invalid(vec![violation])
    }
}

impl RepoError {
    pub(crate) fn field(field: &str, code: &'static str, message: &str) -> Self {
        FieldViolation::new(field, code, message).into()
    }

    /// For a git store that is unreachable, or failed for a reason that does not concern the
    /// caller.
    pub(crate) fn of_store(status: &Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Self::StoreUnavailable,
            _ if is_connection_lost(status) => Self::StoreUnavailable,
            code => Self::Storage(format!("{code:?}: {}", status.message())),
        }
    }

    pub(crate) fn repository_exists(field: &'static str, owner: &str, name: &str) -> Self {
        Self::RepositoryExists { field, owner: owner.to_owned(), name: name.to_owned() }
    }

    /// Returns the field whose value is already taken.
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
            Self::SessionNotFound => (Kind::NotFound, "SESSION_NOT_FOUND"),
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
            Self::TeamHasAllRepositories => (Kind::FailedPrecondition, "TEAM_HAS_ALL_REPOSITORIES"),
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
            // git-svc gives the same reason when its disk is full.
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
            Self::Busy | Self::StoreUnavailable | Self::NoOpenStore | Self::Interrupted => Some(Duration::from_secs(1)),
            Self::Store(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<RepoError> for Status {
    fn from(error: RepoError) -> Self {
        match error {
            RepoError::Refused(status) => *status,
            // The kit converts these, so that all services report them the same way.
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
            FieldViolation::new("scopes", "unknown", "unknown scope `nope`"),
            FieldViolation::new("name", "required", "is required"),
        ]);
        assert_eq!(error.to_string(), "`scopes`: unknown scope `nope`");
    }

    #[test]
    fn a_lost_connection_to_the_store_is_no_fault_of_the_store() {
        let lost = Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert_eq!(lost.code(), Code::Unknown);
        for (status, expected) in [
            (lost, "STORE_UNAVAILABLE"),
            (Status::unavailable("x"), "STORE_UNAVAILABLE"),
            (Status::unknown("x"), "INTERNAL"),
            (Status::internal("x"), "INTERNAL"),
        ] {
            assert_eq!(RepoError::of_store(&status).reason(), expected, "{status:?}");
        }
    }

    #[test]
    fn an_interrupted_write_can_be_repeated_soon() {
        let error = RepoError::Interrupted;
        assert_eq!((error.kind(), error.retry_after()), (Kind::Aborted, Some(Duration::from_secs(1))));
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
