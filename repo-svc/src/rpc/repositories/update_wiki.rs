use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{UpdateWikiRequest, UpdateWikiResponse};
use tonic::Request;

use super::super::{change, repeat, writer};
use crate::error::RepoError;
use crate::model::WikiChange;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateWikiRequest>,
) -> Result<UpdateWikiResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateWiki")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    mut request: UpdateWikiRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateWikiResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let wanted = WikiChange::check(&request)?;
    writer::never_refuse_if(request.allow_public_wiki == Some(false) && repository.is_wiki_public);
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_wiki_settings(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = wanted.apply(&before)?;
    let fields = before.changed_fields(&after);
    if !fields.is_empty() {
        state.repositories.set_wiki_settings(&mut tx, id, &after, now).await?;
        let (target, details) = (Target::repository(&repository), [("fields", fields.join(","))]);
        change::record(&mut tx, permit, Action::RepositoryUpdate, target, &details, now).await?;
    }
    change::commit(tx, key, UpdateWikiResponse {}, now).await
}
