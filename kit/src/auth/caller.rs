use std::sync::Arc;

use ferrite_proto::grant::Grant;
use ferrite_proto::repo::Identity;

use super::error::AuthError;
use crate::secret::Secret;

/// Who sent a request, as far as it was proved. In the extensions of every request that passed [`AuthLayer`].
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The role, when one of Ferrite's own processes is calling. It may call for a user, or for nobody.
    pub service: Option<String>,
    /// The user behind the token, when one came along.
    pub identity: Option<Identity>,
    /// The token itself, to ask repo-svc with.
    pub token: Option<Secret>,
    /// The grant, when one came along.
    pub grant: Option<Arc<Grant>>,
    /// What is being called: the path of the request without its leading slash, which for an RPC is its full method name.
    pub operation: String,
}

impl Caller {
    /// The caller of a request; nobody when it did not pass the layer.
    #[must_use]
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// The signed-in user.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`] for anonymous callers.
    pub fn require_user(&self) -> Result<&Identity, AuthError> {
        self.identity.as_ref().ok_or(AuthError::CredentialsRequired)
    }

    /// The role of the process that calls.
    ///
    /// # Errors
    /// [`AuthError::ServiceRequired`] for everybody else.
    pub fn require_service(&self) -> Result<&str, AuthError> {
        self.service.as_deref().ok_or(AuthError::ServiceRequired)
    }
}
