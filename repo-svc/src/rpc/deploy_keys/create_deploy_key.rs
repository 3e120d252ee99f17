use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::DeployKeyId;
use ferrite_proto::repo::{CreateDeployKeyRequest, CreateDeployKeyResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
use crate::error::RepoError;
use crate::model::parse_titled_key;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateDeployKeyRequest>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateDeployKey")?;
    let (permit, repository) = (&permit, request.get_ref().repository.clone());
    let access = repeat::repository(state, permit, repository.clone());
    let rebuild = |id: i64| async move {
        let repository = permit.repository_by_any_name(&state.repositories, repository).await?;
        let found = state.deploy_keys.find(repository.id(), DeployKeyId(id)).await?.ok_or(RepoError::KeyNotFound)?;
        Ok(CreateDeployKeyResponse { key: Some(encode::deploy_key(found)) })
    };
    let work = create(state, request.into_inner(), permit, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn create(
    state: &AppState,
    mut request: CreateDeployKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let (title, ssh_key) = parse_titled_key(&request.title, &request.key)?;
    state.creation_limit.count(permit.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let row = state.deploy_keys.insert(&mut tx, repository.id(), (&title, &ssh_key), !request.can_write, now).await?;
    let details = [
        ("fingerprint", row.fingerprint.clone()),
        ("title", row.title.clone()),
        ("read_only", row.is_read_only.to_string()),
    ];
    change::record(&mut tx, permit, Action::DeployKeyAdd, Target::repository(&repository), &details, now).await?;
    let id = row.id;
    let answer = CreateDeployKeyResponse { key: Some(encode::deploy_key(row)) };
    change::commit_with_subject(tx, key, answer, &id, now).await
}
