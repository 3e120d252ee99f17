use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{CreateDeployKeyRequest, DeleteDeployKeyRequest, GetDeployKeyRequest, ListDeployKeysRequest};

use super::access::Attempt;
use super::operation;
use crate::auth::Signed;
use crate::dto::{DeployKey, present};
use crate::http::body::Payload;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::{Params, RepoPath};
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/keys" =>
        get list as operation::LIST_DEPLOY_KEYS,
        post create as operation::CREATE_DEPLOY_KEY;
    "/api/v1/repos/{owner}/{repo}/keys/{id}" =>
        get get as operation::GET_DEPLOY_KEY,
        delete remove as operation::DELETE_DEPLOY_KEY;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request =
        ListDeployKeysRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = gateway.clients.deploy_keys().list_deploy_keys(call.request(request)).await?.into_inner();
    let urls = gateway.links_of(&call, &path).await?;
    let keys = answer.keys.into_iter().map(|key| DeployKey::new(key, &urls)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = GetDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    let answer = gateway.clients.deploy_keys().get_deploy_key(call.request(request)).await?.into_inner();
    let urls = gateway.links_of(&call, &path).await?;
    Ok(json::ok(DeployKey::new(present(answer.key, "key")?, &urls)?))
}

async fn create(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let attempt = Attempt::of(operation::CREATE_DEPLOY_KEY).on_repository(path.repository());
    let decode = gateway.decoded(&call, attempt, payload, |fields| CreateDeployKeyRequest {
        repository: Some(path.repository()),
        title: fields.required("title"),
        key: fields.required("key"),
        can_write: fields.optional_flag("read_only") == Some(false),
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.deploy_keys().create_deploy_key(request).await?.into_inner();
    let urls = gateway.links_of(&call, &path).await?;
    Ok(json::created(DeployKey::new(present(answer.key, "key")?, &urls)?))
}

async fn remove(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = DeleteDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    gateway.clients.deploy_keys().delete_deploy_key(call.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
