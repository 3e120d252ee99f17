//! `SetStore`: an administrator adds a git store, or sets the weight of one.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::net::StoreName;
use ferrite_proto::repo::{SetStoreRequest, SetStoreResponse};
use tonic::Request;

use super::list_stores::encode;
use crate::error::RepoError;
use crate::model::{Violations, check_store_weight, parse_store_name};
use crate::rpc::change;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetStoreRequest>,
) -> Result<SetStoreResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetStore")?;
    let answer = once(&state.db, key.as_ref(), set(state, request.get_ref(), &permit, key.as_ref())).await?;
    state.stores.ask_soon();
    Ok(answer)
}

fn check(request: &SetStoreRequest) -> Result<(StoreName, Option<i32>), RepoError> {
    let mut violations = Violations::default();
    let name = violations.take(parse_store_name(&request.name, "name"));
    let weight = violations.take(request.weight.map(|weight| check_store_weight(weight, "weight")).transpose());
    name.zip(weight).ok_or_else(|| violations.into_error())
}

async fn set(
    state: &AppState,
    request: &SetStoreRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetStoreResponse, RepoError> {
    let (name, weight) = check(request)?;
    let (table, now) = (state.stores.table(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let change = table.set(&mut tx, &name, weight, now).await?;
    if let Some((action, weight)) = change {
        let details = [("weight", weight.to_string())];
        change::record(&mut tx, permit, action, Target::git_store(&name), &details, now).await?;
    }
    let row = table.find_in(&mut tx, &name).await?.ok_or(RepoError::Interrupted)?;
    let was_added = matches!(change, Some((Action::StoreAdd, _)));
    let answer = SetStoreResponse { store: Some(encode(row, &state.stores)), was_added };
    change::commit(tx, key, answer, now).await
}
