//! Authorization of operations on a repository.
//!
//! Not here: verifying the grant of a request, which [`AuthLayer`](super::AuthLayer) has done before.

use std::sync::Arc;

use ferrite_proto::grant::{Grant, Verifier};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{RepositoryRef, ResolveAccessRequest, repository_ref};
use futures_util::future::BoxFuture;
use tonic::Request;

use super::caller::Caller;
use super::error::AuthError;
use crate::grpc::Channel;

/// Authorizes operations on a repository: by the grant of the request, or by a grant that repo-svc gives for the caller's token.
/// Caches nothing.
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
    /// Returns an authorization that accepts the grants that `verifier` accepts, and asks repo-svc over `authority`.
    #[must_use]
    pub fn new(authority: Channel, verifier: Arc<Verifier>) -> Self {
        Self { authority, verifier }
    }

    /// Returns the caller's grant for the operation that it calls ([`Caller::operation`]) on `repository`. The existence of the grant
    /// is the permission.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant of another repository or operation, [`AuthError::RepositoryNotFound`] if the caller may not
    /// see the repository, [`AuthError::Refused`] if it may see the repository and not do the operation,
    /// [`AuthError::CredentialsRequired`] if the request has neither grant nor token.
    pub async fn authorize(&self, caller: &Caller, repository: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        self.authorize_as(caller, &caller.operation, repository).await
    }

    /// Returns the caller's grant for `operation`, which need not be an RPC: a name in [`ferrite_proto::operation`].
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
        let grant = answer.map_err(|status| AuthError::from_authority(&status))?.into_inner().grant;
        self.verifier.verify(&grant).map(|(grant, _)| grant).map_err(|_| AuthError::BadGrant)
    }
}
