//! `UpdateRelease`. A release that is public after the change has a tag: that is made before the row changes, as by `CreateRelease`.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{UpdateReleaseRequest, UpdateReleaseResponse};
use tonic::Request;

use super::{encode, lookup, publish, storage};
use crate::error::RepoError;
use crate::model::ReleaseChange;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;
use crate::store::ReleaseKey;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateReleaseRequest>,
) -> Result<UpdateReleaseResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateRelease")?;
    let (repository, permit) = (request.get_ref().repository.clone(), &permit);
    let access = repeat::repository(state, permit, repository.clone());
    let rebuild = |id: i64| async move {
        let release = Some(lookup::read(state, permit, repository, id).await?);
        Ok(UpdateReleaseResponse { release })
    };
    let work = update(state, request.into_inner(), permit, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn update(
    state: &AppState,
    mut request: UpdateReleaseRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateReleaseResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let id = request.release_id;
    let wanted = ReleaseChange::check(&request)?;
    let seen = lookup::release(state, permit, &repository, &ReleaseKey::Id(id)).await?;
    let after = wanted.apply(&seen.fields());
    if after.tag_name != seen.tag_name {
        state.releases.check_tag_is_free(repository.id(), &after.tag_name, Some(id)).await?;
    }
    let is_published = seen.is_draft && !after.is_draft;
    if is_published || (!after.is_draft && after.tag_name != seen.tag_name) {
        storage::create_tag(state, permit, &repository, &after).await?;
    }
    let assets = state.releases.assets([id]).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let before = state.releases.find_locked(&mut tx, repository.id(), id).await?.ok_or(RepoError::ReleaseNotFound)?;
    // The tag was made for the row as it was: another change of these fields came in between.
    if (&before.tag_name, &before.target, before.is_draft) != (&seen.tag_name, &seen.target, seen.is_draft) {
        return Err(RepoError::Interrupted);
    }
    let after = wanted.apply(&before.fields());
    let published_us = match (after.is_draft, is_published) {
        (true, _) => 0,
        (false, true) => now,
        (false, false) => before.published_us,
    };
    let release = state.releases.update(&mut tx, &before, &after, published_us).await?;
    if is_published {
        publish::tell(&mut tx, permit, release.clone(), assets.clone(), now).await?;
    }
    let answer = UpdateReleaseResponse { release: Some(encode::release(release, assets, permit.viewer())) };
    let answer = change::commit_with_subject(tx, key, answer, &id, now).await?;
    state.relay.wake();
    Ok(answer)
}
