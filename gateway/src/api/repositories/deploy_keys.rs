//! Deploy keys of a repository.

use ferrite_proto::operation;
use ferrite_proto::repo::{CreateDeployKeyRequest, DeleteDeployKeyRequest, GetDeployKeyRequest, ListDeployKeysRequest};

use crate::api::call::{Authenticated, routes};
use crate::dto::{DeployKey, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/keys" =>
        get list as operation::LIST_DEPLOY_KEYS,
        post create as operation::CREATE_DEPLOY_KEY;
    "/api/v1/repos/{owner}/{repo}/keys/{id}" =>
        get get as operation::GET_DEPLOY_KEY,
        delete remove as operation::DELETE_DEPLOY_KEY;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request =
        ListDeployKeysRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let response = call.clients.deploy_keys().list_deploy_keys(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let keys = response.keys.into_iter().map(|key| DeployKey::new(key, &urls)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(keys, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = GetDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    let response = call.clients.deploy_keys().get_deploy_key(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(json::ok(DeployKey::new(require(response.key, "key")?, &urls)?))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let decode = |fields: &mut FieldReader| CreateDeployKeyRequest {
        repository: None,
        title: fields.required_non_empty("title"),
        key: fields.required_non_empty("key"),
        can_write: fields.optional_flag("read_only") == Some(false),
    };
    let (repository, decoded) = call.decode_repository_body(&path, operation::CREATE_DEPLOY_KEY, body, decode).await?;
    let request = call.request(CreateDeployKeyRequest { repository: Some(repository.clone()), ..decoded });
    let response = call.clients.deploy_keys().create_deploy_key(request).await?.into_inner();
    let urls = call.links_of(repository).await?;
    Ok(json::created(DeployKey::new(require(response.key, "key")?, &urls)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = DeleteDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    call.clients.deploy_keys().delete_deploy_key(call.request(request)).await?;
    Ok(json::no_content())
}
