use ferrite_api_types::Time;
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, CreateDeployKeyRequest, DeleteDeployKeyRequest, GetDeployKeyRequest, ListDeployKeysRequest,
};
use serde::Serialize;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Flag, Optional, RequestBody, Required, Text, fields};
use crate::http::response::{Created, Json, List, NoContent};

operations! {
    "/api/v1/repos/{owner}/{repo}/keys" =>
        get list as operation::LIST_DEPLOY_KEYS,
        post create as operation::CREATE_DEPLOY_KEY;
    "/api/v1/repos/{owner}/{repo}/keys/{id}" =>
        get get as operation::GET_DEPLOY_KEY,
        delete remove as operation::DELETE_DEPLOY_KEY;
}

ferrite_api_types::shape! {
    /// A deploy key.
    #[derive(Clone, Debug, Serialize)]
    struct DeployKey {
        id: i64,
        key: String,
        url: String,
        title: String,
        /// `SHA256:` and base64 without padding, as OpenSSH shows it.
        fingerprint: String,
        created_at: Time,
        read_only: bool,
    }
}

impl DeployKey {
    fn new(key: repo::DeployKey, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            id: key.id,
            url: urls.deploy_key(key.id),
            key: key.key,
            title: key.title,
            fingerprint: key.fingerprint,
            created_at: Time::new(key.create_time, "create_time")?,
            read_only: key.is_read_only,
        })
    }
}

fields! {
    /// A new deploy key.
    struct NewDeployKey {
        title: Required<Text<255>> = "ci",
        key: Required<Text<16_384>> =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF7ZfAfyxhO8py1GB4mjs4qSnvW5dXZ3t+X+m8MWqKnu deploy@ci.example.com",
        /// Whether the key is read-only, which is the default. If false, it can push.
        read_only: Optional<Flag> = true,
    }
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<List<DeployKey>> {
    let repository = Some(path.repository());
    let request = ListDeployKeysRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.deploy_keys().list_deploy_keys(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let keys = response.keys.into_iter().map(|key| DeployKey::new(key, &urls)).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(keys, response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<Json<DeployKey>> {
    let request = GetDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    let response = call.clients.deploy_keys().get_deploy_key(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(Json(DeployKey::new(require(response.key, "key")?, &urls)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewDeployKey>,
) -> ApiResult<Created<DeployKey>> {
    let (repository, NewDeployKey { title, key, read_only }, _permit) =
        call.repository_body(&path, operation::CREATE_DEPLOY_KEY, body).await?;
    let (of, can_write) = (Some(repository.clone()), read_only == Some(false));
    let request = call.request(CreateDeployKeyRequest { repository: of, title, key, can_write });
    let response = call.clients.deploy_keys().create_deploy_key(request).await?.into_inner();
    let urls = call.links_of(repository).await?;
    let key = DeployKey::new(require(response.key, "key")?, &urls)?;
    Ok(Created::at(key.url.clone(), key))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = DeleteDeployKeyRequest { repository: Some(path.repository()), key_id: params.id("id") };
    call.clients.deploy_keys().delete_deploy_key(call.request(request)).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use prost_types::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn deploy_keys_have_their_own_urls() {
        let key = repo::DeployKey {
            id: 4,
            key: "k".into(),
            title: "t".into(),
            fingerprint: "SHA256:f".into(),
            create_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            is_read_only: true,
        };
        let expected = json!({
            "id": 4, "key": "k", "title": "t", "fingerprint": "SHA256:f", "created_at": "1970-01-01T00:00:01Z",
            "read_only": true,
            "url": "http://git.example.com/api/v1/repos/bob/demo/keys/4",
        });
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        assert_eq!(serde_json::to_value(DeployKey::new(key, &urls).unwrap()).unwrap(), expected);
    }
}
