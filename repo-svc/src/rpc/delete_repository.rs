use ferrite_kit::auth::{AuthError, Caller};
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_kit::outbox;
use ferrite_proto::Permission;
use ferrite_proto::events::RepositoryDeleted;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::{DeleteRepositoryRequest, DeleteRepositoryResponse};
use tonic::Request;

use super::lookup;
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;

const SUBSCRIBERS: &[&str] = &["issue-svc", "hook-svc", "git-svc"];

pub(super) async fn handle(
    core: &Core,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let caller = Caller::of(&request);
    let user = caller.require_user()?;
    let viewer = Viewer::of(Some(user));
    let key = IdempotencyKey::of(&request, user.user_id, "DeleteRepository")?;
    once(&core.db, key.as_ref(), delete(core, request.into_inner(), viewer, key.as_ref())).await
}

async fn delete(
    core: &Core,
    request: DeleteRepositoryRequest,
    viewer: Viewer,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteRepositoryResponse, RepoError> {
    let repository = lookup::visible(core, request.repository, viewer).await?;
    if repository.level(viewer) < Permission::Owner {
        return Err(RepoError::OwnerRequired);
    }
    let now = core.clock.now_us();
    let event = outbox::event(repository.id(), now, Fact::RepositoryDeleted(RepositoryDeleted {}));
    let flush = core.relay.flush(&event, SUBSCRIBERS.len());
    let mut tx = core.db.begin().await?;
    if !core.repositories.delete(&mut tx, repository.id()).await? {
        return Err(AuthError::RepositoryNotFound.into());
    }
    outbox::append(&mut tx, &event, SUBSCRIBERS, now).await?;
    if let Some(key) = key {
        key.store(&mut tx, &DeleteRepositoryResponse {}, now).await?;
    }
    tx.commit().await?;
    flush.wait().await;
    tracing::info!(repo.id = repository.id, "deleted repository {}", repository.id);
    Ok(DeleteRepositoryResponse {})
}
