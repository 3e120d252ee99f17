use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::id::DeployKeyId;
use ferrite_proto::repo::deploy_key_service_server::DeployKeyService;
use ferrite_proto::repo::*;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{change, encode, lookup, repeat};
use crate::error::RepoError;
use crate::model::parse_titled_key;
use crate::state::AppState;
use crate::store::{Action, Target};

authorized_service!(DeployKeyService {
    list_deploy_keys(ListDeployKeysRequest) -> ListDeployKeysResponse;
    get_deploy_key(GetDeployKeyRequest) -> GetDeployKeyResponse;
    create_deploy_key(CreateDeployKeyRequest) -> CreateDeployKeyResponse;
    delete_deploy_key(DeleteDeployKeyRequest) -> DeleteDeployKeyResponse;
});

async fn list_deploy_keys(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListDeployKeysRequest>,
) -> Result<ListDeployKeysResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.deploy_keys.list(repository.id(), page).await?;
    Ok(ListDeployKeysResponse { keys: rows.into_iter().map(encode::deploy_key).collect(), total_count })
}

async fn get_deploy_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetDeployKeyRequest>,
) -> Result<GetDeployKeyResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let found = state.deploy_keys.find(repository.id(), DeployKeyId(request.key_id)).await?;
    let key = encode::deploy_key(found.ok_or(RepoError::KeyNotFound)?);
    version::tell(&key);
    Ok(GetDeployKeyResponse { key: Some(key) })
}

async fn create_deploy_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateDeployKeyRequest>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "CreateDeployKey", |request| &mut request.repository)
            .await?;
    let (authorized, repository) = (&authorized, request.get_ref().repository.clone());
    let access = repeat::repository(state, authorized, repository.clone());
    let rebuild = |id: i64| async move {
        let repository = authorized.repository_by_any_name(&state.repositories, repository).await?;
        let found = state.deploy_keys.find(repository.id(), DeployKeyId(id)).await?.ok_or(RepoError::KeyNotFound)?;
        Ok(CreateDeployKeyResponse { key: Some(encode::deploy_key(found)) })
    };
    let work = create(state, request.into_inner(), authorized, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn create(
    state: &AppState,
    mut request: CreateDeployKeyRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let (title, ssh_key) = parse_titled_key(&request.title, &request.key)?;
    state.creation_limit.count(authorized.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let (id, user, can_write) = (repository.id(), authorized.user()?, request.can_write);
    let row = state.deploy_keys.insert(&mut tx, id, user, (&title, &ssh_key), !can_write, now).await?;
    let details = [
        ("fingerprint", row.fingerprint.clone()),
        ("title", row.title.clone()),
        ("read_only", row.is_read_only.to_string()),
    ];
    change::record(&mut tx, authorized, Action::DeployKeyAdd, Target::repository(&repository), &details, now).await?;
    let id = row.id;
    let response = CreateDeployKeyResponse { key: Some(encode::deploy_key(row)) };
    change::commit_with_subject(tx, key, response, &id, now).await
}

async fn delete_deploy_key(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteDeployKeyRequest>,
) -> Result<DeleteDeployKeyResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "DeleteDeployKey", |request| &mut request.repository)
            .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteDeployKeyRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteDeployKeyResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let removed = state.deploy_keys.delete(&mut tx, repository.id(), DeployKeyId(request.key_id)).await?;
    let removed = removed.ok_or(RepoError::KeyNotFound)?;
    if is_conditional() {
        tx.require_version(Some(&encode::deploy_key(removed.clone())))?;
    }
    let details = [("fingerprint", removed.fingerprint), ("title", removed.title)];
    change::record(&mut tx, authorized, Action::DeployKeyRemove, Target::repository(&repository), &details, now)
        .await?;
    change::commit(tx, key, DeleteDeployKeyResponse {}, now).await
}
