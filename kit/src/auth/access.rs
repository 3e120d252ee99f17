use std::sync::Arc;

use ferrite_proto::error::reason;
use ferrite_proto::grant::{Grant, Verifier};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{RepositoryRef, ResolveAccessRequest, repository_ref};
use futures_util::future::BoxFuture;
use tonic::{Request, Status};

use super::caller::Caller;
use super::error::AuthError;
use crate::grpc::Channel;

/// Decides whether a caller may do an operation to a repository: by the grant that came along, or by asking repo-svc with the
/// caller's token. Remembers nothing of its own.
#[derive(Clone)]
pub struct Access {
    authority: Channel,
    verifier: Arc<Verifier>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Decisions by grants that `verifier` accepts and by asking repo-svc over `authority`.
    #[must_use]
    pub fn new(authority: Channel, verifier: Arc<Verifier>) -> Self {
        Self { authority, verifier }
    }

    /// The caller's grant to do to `repository` what it is calling ([`Caller::operation`]). To have one is the permission.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant of another repository or operation, [`AuthError::RepositoryNotFound`] for what the
    /// caller may not see, [`AuthError::Refused`] for what it may see and not do, [`AuthError::CredentialsRequired`] when it is
    /// nobody and somebody is needed.
    pub async fn authorize(&self, caller: &Caller, repository: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        self.authorize_as(caller, &caller.operation, repository).await
    }

    /// The same for an operation that is no RPC, by its name in [`ferrite_proto::operation`].
    ///
    /// # Errors
    /// As [`Access::authorize`].
    pub async fn authorize_as(
        &self,
        caller: &Caller,
        operation: &str,
        repository: RepositoryId,
    ) -> Result<Arc<Grant>, AuthError> {
        let grant = match &caller.grant {
            Some(grant) => Arc::clone(grant),
            None => Arc::new(self.resolve(caller, operation, repository).await?),
        };
        if grant.repository_id() != repository || grant.operation != operation {
            return Err(AuthError::BadGrant);
        }
        Ok(grant)
    }

    /// Asks repo-svc. Boxed, so that the gRPC client is compiled once, in this crate.
    fn resolve<'a>(
        &'a self,
        caller: &'a Caller,
        operation: &'a str,
        repository: RepositoryId,
    ) -> BoxFuture<'a, Result<Grant, AuthError>> {
        Box::pin(self.call_repo(caller, operation, repository))
    }

    async fn call_repo(&self, caller: &Caller, operation: &str, repository: RepositoryId) -> Result<Grant, AuthError> {
        let token = caller.token.as_ref().ok_or(AuthError::CredentialsRequired)?;
        let repository = RepositoryRef { by: Some(repository_ref::By::Id(repository.0)) };
        let operation = operation.to_owned();
        let mut request = Request::new(ResolveAccessRequest {
            repository: Some(repository),
            operation,
            ..ResolveAccessRequest::default()
        });
        let bearer = format!("Bearer {}", token.expose()).parse().map_err(|_| AuthError::BadCredentials)?;
        request.metadata_mut().insert(AUTHORIZATION, bearer);
        let answer = AccessServiceClient::new(self.authority.clone()).resolve_access(request).await;
        let grant = answer.map_err(|status| refusal(&status))?.into_inner().grant;
        self.verifier.verify(&grant).map(|(grant, _)| grant).map_err(|_| AuthError::BadGrant)
    }
}

/// What repo-svc says about the caller, for the caller; what it says about us, or does not say, is a fault on our side.
fn refusal(status: &Status) -> AuthError {
    let refused = |reason| AuthError::Refused { reason, message: status.message().to_owned() };
    match reason(status).as_deref() {
        Some("REPOSITORY_NOT_FOUND") => AuthError::RepositoryNotFound,
        Some("CREDENTIALS_REQUIRED") => AuthError::CredentialsRequired,
        Some("BAD_CREDENTIALS") => AuthError::BadCredentials,
        Some("PERMISSION_REQUIRED") => refused("PERMISSION_REQUIRED"),
        Some("INSUFFICIENT_SCOPE") => refused("INSUFFICIENT_SCOPE"),
        other => {
            tracing::warn!(code = ?status.code(), reason = other, "cannot ask repo-svc about a caller");
            AuthError::Unavailable
        }
    }
}
