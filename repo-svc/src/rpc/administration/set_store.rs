//! `SetStore`: an administrator adds a git store, or sets the weight of one.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::net::StoreName;
use ferrite_proto::repo::{SetStoreRequest, SetStoreResponse};
use tonic::Request;

use super::list_stores::encode;
use crate::error::RepoError;
use crate::model::{DEFAULT_STORE_WEIGHT, Violations, check_store_weight, parse_store_name};
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
    match (name, weight) {
        (Some(name), Some(weight)) => Ok((name, weight)),
        _ => Err(violations.into_error()),
    }
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
    let before = table.lock(&mut tx, &name).await?;
    let change = match before {
        None => {
            let weight = weight.unwrap_or(DEFAULT_STORE_WEIGHT);
            table.add(&mut tx, &name, weight, now).await?;
            Some((Action::StoreAdd, weight))
        }
        Some(before) => {
            weight.filter(|weight| i64::from(*weight) != before).map(|weight| (Action::StoreUpdate, weight))
        }
    };
    if let Some((action, weight)) = change {
        if action == Action::StoreUpdate {
            table.set_weight(&mut tx, &name, weight).await?;
        }
        let details = [("weight", weight.to_string())];
        change::record(&mut tx, permit, action, Target::git_store(&name), &details, now).await?;
    }
    let row = table.find_in(&mut tx, &name).await?.ok_or(RepoError::Interrupted)?;
    let answer = SetStoreResponse { store: Some(encode(row, &state.stores)), was_added: before.is_none() };
    change::commit(tx, key, answer, now).await
}
