use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::{Links, encode};
use ferrite_api_types::{User, shape};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, CreatePublicKeyRequest, DeletePublicKeyRequest, GetPublicKeyRequest, ListPublicKeysRequest,
};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{RequestBody, Required, Text, Time, fields};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/user/keys" =>
        get list_mine as variant(operation::LIST_PUBLIC_KEYS, "OfCaller"),
        post create as operation::CREATE_PUBLIC_KEY;
    "/api/v1/user/keys/{id}" => get get as operation::GET_PUBLIC_KEY, delete remove as operation::DELETE_PUBLIC_KEY;
    "/api/v1/users/{username}/keys" => get list_of_user as variant(operation::LIST_PUBLIC_KEYS, "OfUser");
}

fields! {
    /// A new SSH key.
    pub(crate) struct NewPublicKey {
        title: Required<Text<255>> = "laptop",
        key: Required<Text<16384>> =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIjCqQ4wSG3nZAjMgzNFF1g5UzIgCpLmTRdsht0e7rle ada@laptop",
    }
}

shape! {
    /// An SSH key of a user.
    #[derive(Clone, Debug, Serialize)]
    struct PublicKey {
        id: i64,
        /// Type, base64 and comment, in OpenSSH's format.
        key: String,
        url: String,
        title: String,
        /// `SHA256:` and base64 without padding, as OpenSSH shows it.
        fingerprint: String,
        created_at: Time,
        /// The user whose key it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<User>,
    }
}

shape! {
    /// An SSH key as its owner sees it.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct OwnPublicKey {
        #[serde(flatten)]
        key: PublicKey,
        /// The token that limits the key: the key has the access of the token and expires with it.
        /// Null for an unlimited key.
        token: Option<KeyToken>,
    }
}

shape! {
    /// The token that limits a key.
    #[derive(Clone, Debug, Serialize)]
    struct KeyToken {
        id: i64,
        name: String,
    }
}

impl PublicKey {
    fn new(key: repo::PublicKey, links: &Links) -> Result<Self, MissingField> {
        Ok(Self {
            id: key.id,
            url: links.public_key(key.id),
            key: key.key,
            title: key.title,
            fingerprint: key.fingerprint,
            created_at: Time::new(key.create_time, "create_time")?,
            user: key.user.map(|user| User::new(user, links)),
        })
    }
}

impl OwnPublicKey {
    fn new(mut key: repo::PublicKey, links: &Links) -> Result<Self, MissingField> {
        let token = key.token.take().map(|token| KeyToken { id: token.id, name: token.name });
        Ok(Self { key: PublicKey::new(key, links)?, token })
    }
}

async fn list_mine(Authenticated(call): Authenticated, query: WholeList) -> ApiResult<List<OwnPublicKey>> {
    list(&call, &query, String::new(), OwnPublicKey::new).await
}

async fn list_of_user(
    Authenticated(call): Authenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<PublicKey>> {
    list(&call, &query, path.name("username"), PublicKey::new).await
}

async fn list<T>(
    call: &ApiCall,
    query: &WholeList,
    username: String,
    show: fn(repo::PublicKey, &Links) -> Result<T, MissingField>,
) -> ApiResult<List<T>> {
    let request = call.request(ListPublicKeysRequest { username, page: query.page.number, page_size: query.page.size });
    let response = call.clients.public_keys().list_public_keys(request).await?.into_inner();
    let keys = response.keys.into_iter().map(|key| show(key, &call.links)).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(keys, response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<OwnPublicKey>> {
    let request = call.request(GetPublicKeyRequest { key_id: path.id("id") });
    let response = call.clients.public_keys().get_public_key(request).await?.into_inner();
    Ok(Json(OwnPublicKey::new(require(response.key, "key")?, &call.links)?))
}

/// Adds a key to the caller's account, or to that of `username` for an administrator.
pub(crate) async fn create(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewPublicKey>,
) -> ApiResult<Created<OwnPublicKey>> {
    let username = path.optional_name("username");
    let as_administrator = username.is_some();
    let check = PermissionCheck::of(operation::CREATE_PUBLIC_KEY).by_administrator(as_administrator);
    let NewPublicKey { title, key } = call.checked_body(check, body).await?;
    // Only the owner can read a single key.
    let keys_of_user = username.as_ref().map(|name| format!("/users/{}/keys", encode(name.as_bytes())));
    let request = CreatePublicKeyRequest { title, key, username: username.unwrap_or_default(), as_administrator };
    let response = call.clients.public_keys().create_public_key(call.request(request)).await?.into_inner();
    // A key added by an administrator is bound to no token, and its owner sees that too.
    let key = OwnPublicKey::new(require(response.key, "key")?, &call.links)?;
    let location = keys_of_user.map_or_else(|| key.key.url.clone(), |path| call.links.api(&path));
    Ok(Created::at(location, key))
}

/// Removes a key from the caller's account, or from that of `username` for an administrator.
pub(crate) async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let username = path.optional_name("username");
    let as_administrator = username.is_some();
    let request = call.request(DeletePublicKeyRequest {
        key_id: path.id("id"),
        username: username.unwrap_or_default(),
        as_administrator,
    });
    call.clients.public_keys().delete_public_key(request).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_have_their_own_urls() {
        let links = Links::new("http://git.example.com", "h:22");
        let at = Some(Timestamp { seconds: 1, nanos: 0 });
        let key = repo::PublicKey {
            id: 3,
            key: "k".into(),
            title: "t".into(),
            fingerprint: "SHA256:f".into(),
            create_time: at,
            ..Default::default()
        };
        let expected = json!({
            "id": 3, "key": "k", "title": "t", "fingerprint": "SHA256:f", "created_at": "1970-01-01T00:00:01Z",
            "url": "http://git.example.com/api/v1/user/keys/3",
        });
        assert_eq!(serde_json::to_value(PublicKey::new(key.clone(), &links).unwrap()).unwrap(), expected);
        let user = Some(repo::User { id: 2, username: "bob".into(), ..Default::default() });
        let of_bob = PublicKey::new(repo::PublicKey { user, ..key.clone() }, &links).unwrap();
        assert_eq!(serde_json::to_value(of_bob).unwrap()["user"]["login"], "bob");
        let own = |key| serde_json::to_value(OwnPublicKey::new(key, &links).unwrap()).unwrap()["token"].take();
        assert_eq!(own(key.clone()), json!(null));
        let token = repo::KeyToken { id: 7, name: "ci".into() };
        assert_eq!(own(repo::PublicKey { token: Some(token), ..key }), json!({"id": 7, "name": "ci"}));
    }
}
