use ferrite_proto::error::{Kind, ServiceError, to_status};
use ferrite_proto::{Permission, Scope};
use tonic::Status;

/// Why a caller is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Nothing was shown that could be checked.
    #[error("credentials are required")]
    CredentialsRequired,
    /// What was shown is not valid: unknown, revoked, expired, or of a disabled user.
    #[error("credentials are not valid")]
    BadCredentials,
    /// The grant is not valid, or is for another repository or operation.
    #[error("grant is not valid")]
    BadGrant,
    /// The caller may not know that the repository exists, or it does not.
    #[error("repository does not exist")]
    RepositoryNotFound,
    /// The caller's level is too low.
    #[error("{needed} permission is required")]
    PermissionRequired {
        /// The level that the operation needs.
        needed: Permission,
    },
    /// The caller's token was not made for this.
    #[error("token lacks scope `{scope}`")]
    InsufficientScope {
        /// The scope that the operation needs.
        scope: Scope,
    },
    /// repo-svc said no to a known caller; in its words.
    #[error("{message}")]
    Refused {
        /// Its reason.
        reason: &'static str,
        /// What it said.
        message: String,
    },
    /// Only site administrators may.
    #[error("site administrators only")]
    AdminRequired,
    /// Only Ferrite's own processes may.
    #[error("services only")]
    ServiceRequired,
    /// The authority cannot be asked now.
    #[error("credentials cannot be checked now")]
    Unavailable,
}

impl ServiceError for AuthError {
    fn kind(&self) -> Kind {
        match self {
            Self::CredentialsRequired | Self::BadCredentials | Self::BadGrant => Kind::Unauthenticated,
            Self::RepositoryNotFound => Kind::NotFound,
            Self::PermissionRequired { .. }
            | Self::InsufficientScope { .. }
            | Self::Refused { .. }
            | Self::AdminRequired
            | Self::ServiceRequired => Kind::PermissionDenied,
            Self::Unavailable => Kind::Overloaded,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::CredentialsRequired => "CREDENTIALS_REQUIRED",
            Self::BadCredentials => "BAD_CREDENTIALS",
            Self::BadGrant => "BAD_GRANT",
            Self::RepositoryNotFound => "REPOSITORY_NOT_FOUND",
            Self::PermissionRequired { .. } => "PERMISSION_REQUIRED",
            Self::InsufficientScope { .. } => "INSUFFICIENT_SCOPE",
            Self::Refused { reason, .. } => reason,
            Self::AdminRequired => "ADMIN_REQUIRED",
            Self::ServiceRequired => "SERVICE_REQUIRED",
            Self::Unavailable => "AUTHORITY_UNAVAILABLE",
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
