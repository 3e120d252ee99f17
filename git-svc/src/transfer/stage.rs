//! Copies of objects between two repositories of this store.

use ferrite_proto::id::RepositoryId;
use git2::Oid;

use crate::{rpc_error::RpcError, state::AppState};

/// Copies what `id` reaches in `from` and `to` lacks. `left_bytes` is what the owner of `to` may
/// still store.
pub(crate) async fn copy_objects(
    _state: &AppState,
    _from: RepositoryId,
    _to: RepositoryId,
    _id: Oid,
    _left_bytes: Option<u64>,
) -> Result<(), RpcError> {
    Err(RpcError::BadPermit)
}
