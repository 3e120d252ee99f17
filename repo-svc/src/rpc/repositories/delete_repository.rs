use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::outbox;
use ferrite_proto::events::RepositoryDeleted;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::{DeleteRepositoryRequest, DeleteRepositoryResponse};
use tonic::Request;

use super::super::{change, encode};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "DeleteRepository")?;
    once(&state.db, key.as_ref(), delete(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteRepositoryRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let now = state.clock.now_us();
    let snapshot = encode::repository_snapshot(repository.clone());
    let mut tx = state.db.begin().await?;
    // Under the lock, because a push may make the wiki meanwhile.
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let wiki_id = state.repositories.wiki_id(&mut tx, repository.id()).await?.unwrap_or(0);
    let fact = RepositoryDeleted { repository: Some(snapshot), user_id: permit.user()?.0, wiki_id };
    let event = outbox::event(repository.id(), now, Fact::RepositoryDeleted(fact));
    let store = state.stores.subscriber(&repository.store);
    // The response waits for those who show or keep the repository.
    let flush = state.relay.flush(&event, &["issue-svc", &store]);
    if !state.repositories.delete(&mut tx, repository.id()).await? {
        return Err(AuthError::RepositoryNotFound.into());
    }
    let target = Target::repository(&repository);
    change::record(&mut tx, permit, Action::RepositoryDelete, target, &[], now).await?;
    outbox::append(&mut tx, &event, &["issue-svc", "hook-svc", &store], now).await?;
    let answer = change::commit(tx, key, DeleteRepositoryResponse {}, now).await?;
    flush.wait().await;
    tracing::info!(repo.id = repository.id, "deleted repository {}", repository.id);
    Ok(answer)
}
