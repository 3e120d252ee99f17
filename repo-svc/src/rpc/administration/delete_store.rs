//! `DeleteStore`: an administrator removes a git store that has no repositories.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{DeleteStoreRequest, DeleteStoreResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::model::parse_store_name;
use crate::rpc::change;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteStoreRequest>,
) -> Result<DeleteStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteStore")?;
    let answer = once(&state.db, key.as_ref(), delete(state, request.get_ref(), &permit, key.as_ref())).await?;
    state.stores.ask_soon();
    Ok(answer)
}

async fn delete(
    state: &AppState,
    request: &DeleteStoreRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteStoreResponse, RepoError> {
    // A name that no store can have is that of no store.
    let name = parse_store_name(&request.name, "name").map_err(|_| RepoError::StoreNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.stores.table().delete(&mut tx, &name).await?;
    change::record(&mut tx, permit, Action::StoreRemove, Target::git_store(&name), &[], now).await?;
    change::commit(tx, key, DeleteStoreResponse {}, now).await
}
