//! Deploy keys of a repository.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{CreateDeployKeyRequest, DeleteDeployKeyRequest, GetDeployKeyRequest, ListDeployKeysRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{DeployKey, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/keys" =>
        get list as operation::LIST_DEPLOY_KEYS,
        post create as operation::CREATE_DEPLOY_KEY;
    "/api/v1/repos/{owner}/{repo}/keys/{id}" =>
        get get as operation::GET_DEPLOY_KEY,
        delete remove as operation::DELETE_DEPLOY_KEY;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request =
        ListDeployKeysRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = api.clients.deploy_keys().list_deploy_keys(context.request(request)).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    let keys = answer.keys.into_iter().map(|key| DeployKey::new(key, &urls)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = GetDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    let answer = api.clients.deploy_keys().get_deploy_key(context.request(request)).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::ok(DeployKey::new(require(answer.key, "key")?, &urls)?))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::CREATE_DEPLOY_KEY).on_repository(path.repository());
    let decode = api.decode_body(&context, check, body, |fields| CreateDeployKeyRequest {
        repository: Some(path.repository()),
        title: fields.required_non_empty("title"),
        key: fields.required_non_empty("key"),
        can_write: fields.optional_flag("read_only") == Some(false),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.deploy_keys().create_deploy_key(request).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::created(DeployKey::new(require(answer.key, "key")?, &urls)?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = DeleteDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    api.clients.deploy_keys().delete_deploy_key(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
