//! Access tokens of a user: the only operations of the API that need a password.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::encode;
use ferrite_api_types::schema::{Schema, Schemas, Shape, words};
use ferrite_api_types::shape;
use ferrite_proto::repo::{
    self, BasicCredential, CreateAccessTokenRequest, DeleteAccessTokenRequest, ListAccessTokensRequest,
};
use ferrite_proto::{GITEA_SCOPES, GiteaScope, Scope, Scopes, operation};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::call::{ApiCall, BasicAuth, operations};
use crate::http::body_limits::MAX_UNVERIFIED_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{Checked, Kind, Mistakes, NonEmpty, OrDefault, RequestBody, Text, Texts, Time, fields};
use crate::http::response::{Created, Either, List, NoContent};

operations! {
    "/api/v1/users/{username}/tokens" =>
        get list as operation::LIST_ACCESS_TOKENS,
        post create as operation::CREATE_ACCESS_TOKEN;
    "/api/v1/users/{username}/tokens/{name}" => delete remove as operation::DELETE_ACCESS_TOKEN;
}

fields! {
    /// A new access token. The password is checked together with the request.
    #[max_bytes = MAX_UNVERIFIED_BODY_BYTES]
    struct NewAccessToken {
        name: Checked<Text<255>> = "ci",
        scopes: OrDefault<ScopeNames> = ["repo:read", "issue"],
        /// The expiry time, in the future and within 100 years. Without it, the token never
        /// expires.
        expires_at: NonEmpty<Time> = "2030-01-01T00:00:00Z",
        repositories: OrDefault<Texts<100>> = ["acme/site"],
    }
}

/// Names of scopes, ours and those of Gitea. repo-svc rejects unknown ones.
enum ScopeNames {}

impl Kind for ScopeNames {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        <Texts as Kind>::read(name, value, mistakes)
    }

    fn schema(_: &mut Schemas) -> Schema {
        let own = Scope::ALL.map(Scope::as_str).into_iter();
        let of_gitea = GITEA_SCOPES.into_iter().filter(|(_, scope)| !matches!(scope, GiteaScope::OnlyIn(_)));
        let names: Vec<_> = own.chain(of_gitea.map(|(name, _)| name)).collect();
        json!({"type": "array", "items": words(&names)})
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ScopeName(&'static str);

impl Shape for ScopeName {
    fn schema(_: &mut Schemas) -> Schema {
        words(&Scope::ALL.map(Scope::as_str))
    }
}

shape! {
    /// An access token.
    #[derive(Clone, Debug, Serialize)]
    struct AccessToken {
        id: i64,
        name: String,
        /// The token itself right after its creation, later a digest that cannot be used to sign
        /// in.
        sha1: String,
        /// The last eight digits of the token; empty for a token of an early version.
        token_last_eight: String,
    }
}

impl AccessToken {
    /// Converts a token, with its value or a digest in place of it.
    fn new(token: repo::AccessToken, sha1: String) -> Self {
        Self { id: token.id, name: token.name, sha1, token_last_eight: token.last_eight }
    }
}

shape! {
    /// Scopes, expiry and repositories of a token.
    #[derive(Clone, Debug, Serialize)]
    struct TokenLimits {
        scopes: Vec<ScopeName>,
        /// The expiry time; null if the token never expires.
        expires_at: Option<Time>,
        /// The repositories to which the token is limited, besides public ones. Absent for a token
        /// without this limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        repositories: Option<Vec<String>>,
    }
}

impl TokenLimits {
    /// Takes the limits of `token`, except its list of repositories.
    fn take(token: &mut repo::AccessToken) -> Result<Self, MissingField> {
        let expires_at = Time::optional(token.expire_time, "expire_time")?;
        let repositories = std::mem::take(&mut token.repositories);
        Ok(Self {
            scopes: Scopes::from_proto(&token.scopes).iter().map(|scope| ScopeName(scope.as_str())).collect(),
            expires_at,
            repositories: token.is_limited.then_some(repositories),
        })
    }
}

shape! {
    /// A new token whose request had more than a name.
    #[derive(Clone, Debug, Serialize)]
    struct NewToken {
        #[serde(flatten)]
        token: AccessToken,
        #[serde(flatten)]
        limits: TokenLimits,
    }
}

impl NewToken {
    fn new(mut token: repo::AccessToken, value: String) -> Result<Self, MissingField> {
        let limits = TokenLimits::take(&mut token)?;
        Ok(Self { token: AccessToken::new(token, value), limits })
    }
}

shape! {
    /// A token in its owner's list, with a digest in place of its value.
    #[derive(Clone, Debug, Serialize)]
    struct ListedToken {
        #[serde(flatten)]
        token: AccessToken,
        created_at: Time,
        /// The approximate time of the last use; null if it was never used.
        last_used_at: Option<Time>,
        #[serde(flatten)]
        limits: TokenLimits,
    }
}

impl ListedToken {
    fn new(mut token: repo::AccessToken) -> Result<Self, MissingField> {
        let (limits, digest) = (TokenLimits::take(&mut token)?, std::mem::take(&mut token.digest));
        Ok(Self {
            created_at: Time::new(token.create_time, "create_time")?,
            last_used_at: Time::optional(token.last_use_time, "last_use_time")?,
            token: AccessToken::new(token, digest),
            limits,
        })
    }
}

async fn list(BasicAuth(call, credential): BasicAuth, path: Params, query: WholeList) -> ApiResult<List<ListedToken>> {
    let request = ListAccessTokensRequest {
        credential: Some(credential),
        username: path.name("username"),
        page: query.page.number,
        page_size: query.page.size,
    };
    let request = call.request_without_token(request);
    let response = call.clients.accounts().list_access_tokens(request).await.map_err(password_error)?.into_inner();
    let tokens = response.tokens.into_iter().map(ListedToken::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(tokens, response.total_count, &call.links))
}

async fn create(
    BasicAuth(call, credential): BasicAuth,
    path: Params,
    body: RequestBody<NewAccessToken>,
) -> ApiResult<Either<Created<AccessToken>, Created<NewToken>>> {
    let username = path.name("username");
    let NewAccessToken { name, scopes, expires_at, repositories } = match body.read(&call.body_limits).await {
        Ok((read, _permit)) => read,
        Err(error) => return Err(prefer_password_error(&call, credential, username, error).await),
    };
    let is_plain = scopes.is_empty() && expires_at.is_none() && repositories.is_empty();
    // There is no URL to read a single token.
    let location = call.links.api(&format!("/users/{}/tokens", encode(username.as_bytes())));
    let request = CreateAccessTokenRequest {
        credential: Some(credential),
        username,
        name,
        scopes,
        expire_time: expires_at,
        repositories,
    };
    let request = call.request_without_token(request);
    let response = call.clients.accounts().create_access_token(request).await.map_err(password_error)?.into_inner();
    let token = require(response.token, "token")?;
    if is_plain {
        // Older clients send only a name, and expect no more in the response.
        return Ok(Either::First(Created::at(location, AccessToken::new(token, response.value))));
    }
    Ok(Either::Second(Created::at(location, NewToken::new(token, response.value)?)))
}

async fn remove(BasicAuth(call, credential): BasicAuth, path: Params) -> ApiResult<NoContent> {
    let request = DeleteAccessTokenRequest {
        credential: Some(credential),
        username: path.name("username"),
        name: path.name("name"),
    };
    let request = call.request_without_token(request);
    call.clients.accounts().delete_access_token(request).await.map_err(password_error)?;
    Ok(NoContent)
}

fn password_error(status: tonic::Status) -> ApiError {
    ApiError::from(status).asking_for_password()
}

/// Returns the error of an invalid request: a wrong password is reported first.
async fn prefer_password_error(
    call: &ApiCall,
    credential: BasicCredential,
    username: String,
    error: ApiError,
) -> ApiError {
    let request = ListAccessTokensRequest { credential: Some(credential), username, page: 1, page_size: 1 };
    match call.clients.accounts().list_access_tokens(call.request_without_token(request)).await {
        Ok(_) => error,
        Err(status) => password_error(status),
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;
    use serde_json::json;

    use super::*;

    fn token() -> repo::AccessToken {
        let scopes: Scopes = [Scope::Issue, Scope::RepoRead].into_iter().collect();
        repo::AccessToken {
            id: 7,
            name: "ci".into(),
            digest: "d".into(),
            last_eight: "89abcdef".into(),
            create_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            scopes: scopes.to_proto(),
            ..Default::default()
        }
    }

    #[test]
    fn a_listed_token_has_everything_but_its_value() {
        let plain = serde_json::to_value(ListedToken::new(token()).unwrap()).unwrap();
        let expected = json!({
            "id": 7, "name": "ci", "sha1": "d", "token_last_eight": "89abcdef", "created_at": "1970-01-01T00:00:01Z", "last_used_at": null,
            "scopes": ["repo:read", "issue"], "expires_at": null,
        });
        assert_eq!(plain, expected);
        let limited = repo::AccessToken { is_limited: true, ..token() };
        assert_eq!(serde_json::to_value(ListedToken::new(limited).unwrap()).unwrap()["repositories"], json!([]));
    }

    #[test]
    fn a_new_token_has_its_limits() {
        let made = repo::AccessToken {
            is_limited: true,
            repositories: vec!["bob/demo".into()],
            expire_time: Some(Timestamp { seconds: 2, nanos: 0 }),
            ..token()
        };
        let expected = json!({
            "id": 7, "name": "ci", "sha1": "secret", "token_last_eight": "89abcdef", "scopes": ["repo:read", "issue"], "expires_at": "1970-01-01T00:00:02Z",
            "repositories": ["bob/demo"],
        });
        assert_eq!(serde_json::to_value(NewToken::new(made, "secret".into()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn scopes_are_described_by_their_names() {
        let schema = <ScopeNames as Kind>::schema(&mut Schemas::default());
        let names: Vec<_> = schema["items"]["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(names[..Scope::ALL.len()], Scope::ALL.map(Scope::as_str));
        assert!(names.contains(&"write:repository") && !names.contains(&"read:issue"), "{names:?}");
    }
}
