//! Authentication and authorization errors.

use ferrite_proto::error::{Kind, ServiceError, reason, to_status};
use ferrite_proto::{Permission, Scope, ServiceRole};
use tonic::Status;

/// A request was rejected because of its credentials or permissions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no credentials.
    #[error("credentials are required")]
    CredentialsRequired,
    /// The credentials are malformed, unknown, revoked, expired, or of a disabled user.
    #[error("credentials are not valid")]
    BadCredentials,
    /// The grant is invalid, or is for another repository or operation.
    #[error("grant is not valid")]
    BadGrant,
    /// The repository does not exist, or the caller may not know that it does.
    #[error("repository does not exist")]
    RepositoryNotFound,
    /// The repository, which the caller may see, has no wiki, or the wiki has never had a page.
    #[error("wiki does not exist")]
    WikiNotFound,
    /// The organization does not exist.
    #[error("organization does not exist")]
    OrganizationNotFound,
    /// The caller's permission on the repository is too low.
    #[error("{needed} permission is required")]
    PermissionRequired {
        /// The required permission.
        needed: Permission,
    },
    /// The repository is archived and cannot be changed.
    #[error("repository is archived and cannot be changed")]
    RepositoryArchived,
    /// The access token lacks a required scope.
    #[error("token lacks scope `{scope}`")]
    InsufficientScope {
        /// The missing scope.
        scope: Scope,
    },
    /// repo-svc rejected an authenticated caller.
    #[error("{message}")]
    Refused {
        /// The reason in repo-svc's status.
        reason: &'static str,
        /// The message of repo-svc's status.
        message: String,
    },
    /// Only site administrators may do this.
    #[error("you must be a site administrator")]
    AdminRequired,
    /// Only Ferrite's own processes may do this.
    #[error("services only")]
    ServiceRequired,
    /// The role of the calling process may not call this.
    #[error("{role} may not call this method")]
    ServiceNotPermitted {
        /// The role.
        role: ServiceRole,
    },
    /// The credentials cannot be checked because repo-svc does not respond.
    #[error("credentials cannot be checked, try again later")]
    Unavailable,
}

impl AuthError {
    /// Converts a failure of repo-svc to the error for the caller. A reason that is not about the
    /// caller is a fault of this installation, and becomes [`AuthError::Unavailable`].
    #[must_use]
    pub fn from_authority(status: &Status) -> Self {
        let refused = |reason| Self::Refused { reason, message: status.message().to_owned() };
        match reason(status).as_deref() {
            Some("REPOSITORY_NOT_FOUND") => Self::RepositoryNotFound,
            Some("WIKI_NOT_FOUND") => Self::WikiNotFound,
            Some("REPOSITORY_ARCHIVED") => Self::RepositoryArchived,
            Some("CREDENTIALS_REQUIRED") => Self::CredentialsRequired,
            Some("BAD_CREDENTIALS") => Self::BadCredentials,
            Some("PERMISSION_REQUIRED") => refused("PERMISSION_REQUIRED"),
            Some("INSUFFICIENT_SCOPE") => refused("INSUFFICIENT_SCOPE"),
            Some("ORGANIZATION_NOT_FOUND") => Self::OrganizationNotFound,
            Some("ORGANIZATION_OWNER_REQUIRED") => refused("ORGANIZATION_OWNER_REQUIRED"),
            other => {
                tracing::warn!(code = ?status.code(), reason = other, "cannot ask repo-svc about a caller");
                Self::Unavailable
            }
        }
    }
}

impl ServiceError for AuthError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::CredentialsRequired => (Kind::Unauthenticated, "CREDENTIALS_REQUIRED"),
            Self::BadCredentials => (Kind::Unauthenticated, "BAD_CREDENTIALS"),
            Self::BadGrant => (Kind::Unauthenticated, "BAD_GRANT"),
            Self::RepositoryNotFound => (Kind::NotFound, "REPOSITORY_NOT_FOUND"),
            Self::WikiNotFound => (Kind::NotFound, "WIKI_NOT_FOUND"),
            Self::OrganizationNotFound => (Kind::NotFound, "ORGANIZATION_NOT_FOUND"),
            Self::PermissionRequired { .. } => (Kind::PermissionDenied, "PERMISSION_REQUIRED"),
            Self::RepositoryArchived => (Kind::PermissionDenied, "REPOSITORY_ARCHIVED"),
            Self::InsufficientScope { .. } => (Kind::PermissionDenied, "INSUFFICIENT_SCOPE"),
            Self::Refused { reason, .. } => (Kind::PermissionDenied, reason),
            Self::AdminRequired => (Kind::PermissionDenied, "ADMIN_REQUIRED"),
            Self::ServiceRequired => (Kind::PermissionDenied, "SERVICE_REQUIRED"),
            Self::ServiceNotPermitted { .. } => (Kind::PermissionDenied, "SERVICE_NOT_PERMITTED"),
            Self::Unavailable => (Kind::Overloaded, "AUTHORITY_UNAVAILABLE"),
        }
    }

    fn domain(&self) -> &'static str {
        "auth"
    }
}

impl From<AuthError> for Status {
    fn from(error: AuthError) -> Self {
        to_status(&error)
    }
}
