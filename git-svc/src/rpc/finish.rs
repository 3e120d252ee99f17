//! Writes that go on to their end although the caller has left.

use crate::{
    state::AppState,
    types::{error::GitError, rpc_error::RpcError},
};

/// Runs a write in a task of its own, so that it is completed even if the caller disconnects. `work` gets a clone of the state.
pub(super) async fn finish<T, F>(state: &AppState, work: impl FnOnce(AppState) -> F) -> Result<T, RpcError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, RpcError>> + Send + 'static,
{
    let done = state.life.spawn_for_request("write", work(state.clone())).await;
    done.map_err(|error| GitError::Internal(format!("a write ended early: {error}")))?
}
