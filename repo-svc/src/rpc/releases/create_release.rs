//! `CreateRelease`: the tag on the git store, then the row. After a crash between the two there is a tag without a release, which a
//! repeated request finds and uses.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{CreateReleaseRequest, CreateReleaseResponse};
use tonic::Request;

use super::{encode, lookup, publish, storage};
use crate::error::RepoError;
use crate::model::ReleaseFields;
use crate::rpc::permit::Permit;
use crate::rpc::{change, repeat};
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateReleaseRequest>,
) -> Result<CreateReleaseResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateRelease")?;
    let (repository, permit) = (request.get_ref().repository.clone(), &permit);
    let access = repeat::repository(state, permit, repository.clone());
    let rebuild = |id: i64| async move {
        let release = Some(lookup::read(state, permit, repository, id).await?);
        Ok(CreateReleaseResponse { release })
    };
    let work = create(state, request.into_inner(), permit, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn create(
    state: &AppState,
    mut request: CreateReleaseRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateReleaseResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let fields = ReleaseFields::check(&request, &repository.default_branch)?;
    state.releases.check_tag_is_free(repository.id(), &fields.tag_name, None).await?;
    state.creation_limit.count(permit.identity()?).await?;
    if !fields.is_draft {
        storage::create_tag(state, permit, &repository, &fields).await?;
    }
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let release = state.releases.insert(&mut tx, repository.id(), &fields, permit.user()?, now).await?;
    if !release.is_draft {
        publish::tell(&mut tx, permit, release.clone(), Vec::new(), now).await?;
    }
    let id = release.id;
    let answer = CreateReleaseResponse { release: Some(encode::release(release, Vec::new(), permit.viewer())) };
    let answer = change::commit_with_subject(tx, key, answer, &id, now).await?;
    state.relay.wake();
    Ok(answer)
}
