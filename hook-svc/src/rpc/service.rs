use std::sync::Arc;

use ferrite_kit::Clock;
use ferrite_kit::auth::{Access, Caller};
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use tonic::{Request, Status};

use crate::store::HookStore;

/// The services that every RPC uses.
#[derive(Clone, Debug)]
pub(crate) struct HookRpc {
    pub(crate) store: HookStore,
    pub(crate) access: Access,
    pub(crate) clock: Clock,
}

impl HookRpc {
    /// Returns the caller's grant for the operation of `request` on a repository.
    ///
    /// # Errors
    /// Those of [`Access::authorize`].
    pub(super) async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, Status> {
        Ok(self.access.authorize(&Caller::of(request), RepositoryId(repository)).await?)
    }
}
