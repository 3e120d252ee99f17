use std::sync::Arc;

use ferrite_kit::Clock;
use ferrite_kit::auth::{Access, Caller};
use ferrite_kit::outbox::Relay;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::store::IssueStore;

/// Name of the service that subscribes to the events of this one.
pub(crate) const SUBSCRIBER: &str = "repo-svc";

/// The services that every RPC uses.
#[derive(Clone, Debug)]
pub(crate) struct IssueRpc {
    pub(crate) store: IssueStore,
    pub(crate) access: Access,
    pub(crate) relay: Relay,
    pub(crate) clock: Clock,
}

impl IssueRpc {
    /// Returns the caller's grant for the operation of `request` on a repository.
    ///
    /// # Errors
    /// [`IssueError::Disabled`] if the repository's issue tracker is switched off, or those of [`Access::authorize`].
    pub(super) async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, Status> {
        let grant = self.access.authorize(&Caller::of(request), RepositoryId(repository)).await?;
        if !grant.issues_enabled {
            return Err(IssueError::Disabled.into());
        }
        Ok(grant)
    }
}
