use std::sync::Arc;

use ferrite_proto::Permission;
use ferrite_proto::grant::{Grant, Verifier};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{RepositoryRef, ResolveAccessRequest, repository_ref};
use tonic::{Code, Request};

use super::{AuthError, Caller};
use crate::grpc::Channel;

/// Decides whether a caller has a level on a repository: by the grant that came along, or by asking repo-svc with the caller's
/// token. Remembers nothing of its own.
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

    /// The caller's grant for `repository`, of at least level `needed`.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant of another repository, [`AuthError::RepositoryNotFound`] for what the caller may not
    /// see, [`AuthError::PermissionRequired`] for what it may see and not do, [`AuthError::CredentialsRequired`] when it is nobody
    /// and somebody is needed.
    pub async fn require(
        &self,
        caller: &Caller,
        repository: RepositoryId,
        needed: Permission,
    ) -> Result<Arc<Grant>, AuthError> {
        let grant = match &caller.grant {
            Some(grant) if grant.repository_id() == repository => Arc::clone(grant),
            Some(_) => return Err(AuthError::BadGrant),
            None => self.resolve(caller, repository).await?,
        };
        check(&grant, needed)?;
        Ok(grant)
    }

    async fn resolve(&self, caller: &Caller, wanted: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        let token = caller.token.as_ref().ok_or(AuthError::CredentialsRequired)?;
        let repository = RepositoryRef { by: Some(repository_ref::By::Id(wanted.0)) };
        let mut request = Request::new(ResolveAccessRequest { repository: Some(repository), basic: None });
        let bearer = format!("Bearer {}", token.expose()).parse().map_err(|_| AuthError::BadCredentials)?;
        request.metadata_mut().insert(AUTHORIZATION, bearer);
        match AccessServiceClient::new(self.authority.clone()).resolve_access(request).await {
            Ok(response) => {
                let grant = self.verifier.verify(&response.into_inner().grant).map_err(|_| AuthError::BadGrant)?.0;
                if grant.repository_id() != wanted {
                    return Err(AuthError::BadGrant);
                }
                Ok(Arc::new(grant))
            }
            Err(status) => Err(match status.code() {
                Code::NotFound => AuthError::RepositoryNotFound,
                Code::Unauthenticated => AuthError::BadCredentials,
                _ => AuthError::Unavailable,
            }),
        }
    }
}

fn check(grant: &Grant, needed: Permission) -> Result<(), AuthError> {
    if grant.permission == Permission::None {
        return Err(AuthError::RepositoryNotFound);
    }
    if grant.permission < needed {
        return Err(match grant.user {
            Some(_) => AuthError::PermissionRequired { needed },
            None => AuthError::CredentialsRequired,
        });
    }
    Ok(())
}
