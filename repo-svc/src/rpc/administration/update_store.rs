//! `UpdateStore`: an administrator sets the weight of a git store.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{UpdateStoreRequest, UpdateStoreResponse};
use tonic::Request;

use super::list_stores::encode;
use crate::error::RepoError;
use crate::model::{check_store_weight, parse_store_name};
use crate::rpc::change;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateStoreRequest>,
) -> Result<UpdateStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateStore")?;
    once(&state.db, key.as_ref(), update(state, request.get_ref(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateStoreRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateStoreResponse, RepoError> {
    // A name that no store can have is that of no store.
    let name = parse_store_name(&request.name, "name").map_err(|_| RepoError::StoreNotFound)?;
    let (table, now) = (state.stores.table(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = table.lock(&mut tx, &name).await?.ok_or(RepoError::StoreNotFound)?;
    if let Some(weight) = request.weight {
        let weight = check_store_weight(weight, "weight")?;
        if i64::from(weight) != before {
            table.set_weight(&mut tx, &name, weight).await?;
            let details = [("weight", weight.to_string())];
            change::record(&mut tx, permit, Action::StoreUpdate, Target::git_store(&name), &details, now).await?;
        }
    }
    let row = table.find_in(&mut tx, &name).await?.ok_or(RepoError::Interrupted)?;
    change::commit(tx, key, UpdateStoreResponse { store: Some(encode(row, &state.stores)) }, now).await
}
