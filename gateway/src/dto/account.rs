//! Access tokens, e-mail addresses and keys of accounts.

use ferrite_proto::{Scopes, repo};
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, optional_time, time};
use ferrite_api_types::links::Links;

/// An access token: its name, and its value when it was just created, else a digest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AccessToken {
    pub(crate) name: String,
    pub(crate) sha1: String,
}

/// Scopes, expiry and repositories of a token.
#[derive(Clone, Debug, Serialize)]
struct TokenLimits {
    scopes: Vec<&'static str>,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repositories: Option<Vec<String>>,
}

impl TokenLimits {
    /// Takes the limits of `token`; leaves its list of repositories empty.
    fn take(token: &mut repo::AccessToken) -> Result<Self, MissingField> {
        let expires_at = optional_time(token.expire_time, "expire_time")?;
        let repositories = std::mem::take(&mut token.repositories);
        Ok(Self {
            scopes: Scopes::from_proto(&token.scopes).iter().map(ferrite_proto::Scope::as_str).collect(),
            expires_at,
            repositories: token.is_limited.then_some(repositories),
        })
    }
}

/// A new token whose request had more than a name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NewToken {
    #[serde(flatten)]
    token: AccessToken,
    #[serde(flatten)]
    limits: TokenLimits,
}

impl NewToken {
    pub(crate) fn new(mut token: repo::AccessToken, value: String) -> Result<Self, MissingField> {
        let limits = TokenLimits::take(&mut token)?;
        Ok(Self { token: AccessToken { name: token.name, sha1: value }, limits })
    }
}

/// A token in the list of its owner, with a digest instead of its value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListedToken {
    id: i64,
    #[serde(flatten)]
    token: AccessToken,
    created_at: String,
    last_used_at: Option<String>,
    #[serde(flatten)]
    limits: TokenLimits,
}

impl ListedToken {
    pub(crate) fn new(mut token: repo::AccessToken) -> Result<Self, MissingField> {
        let limits = TokenLimits::take(&mut token)?;
        Ok(Self {
            id: token.id,
            created_at: time(token.create_time, "create_time")?,
            last_used_at: optional_time(token.last_use_time, "last_use_time")?,
            token: AccessToken { name: token.name, sha1: token.digest },
            limits,
        })
    }
}

/// An e-mail address.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Email {
    email: String,
    verified: bool,
    primary: bool,
}

impl From<repo::Email> for Email {
    fn from(email: repo::Email) -> Self {
        Self { email: email.email, verified: email.is_verified, primary: email.is_primary }
    }
}

/// A key of a user.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PublicKey {
    id: i64,
    key: String,
    url: String,
    title: String,
    created_at: String,
}

/// A key as its owner sees it: with the token to which it is bound, or `null`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OwnPublicKey {
    #[serde(flatten)]
    key: PublicKey,
    token: Option<KeyToken>,
}

/// The token to which a key is bound.
#[derive(Clone, Debug, Serialize)]
struct KeyToken {
    id: i64,
    name: String,
}

impl PublicKey {
    pub(crate) fn new(key: repo::PublicKey, links: &Links) -> Result<Self, MissingField> {
        Ok(Self {
            id: key.id,
            url: links.public_key(key.id),
            key: key.key,
            title: key.title,
            created_at: time(key.create_time, "create_time")?,
        })
    }
}

impl OwnPublicKey {
    pub(crate) fn new(mut key: repo::PublicKey, links: &Links) -> Result<Self, MissingField> {
        let token = key.token.take().map(|token| KeyToken { id: token.id, name: token.name });
        Ok(Self { key: PublicKey::new(key, links)?, token })
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::Scope;
    use prost_types::Timestamp;
    use serde_json::json;

    use super::*;

    fn token() -> repo::AccessToken {
        let scopes: Scopes = [Scope::Issue, Scope::RepoRead].into_iter().collect();
        repo::AccessToken {
            id: 7,
            name: "ci".into(),
            digest: "d".into(),
            create_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            scopes: scopes.to_proto(),
            ..Default::default()
        }
    }

    #[test]
    fn a_listed_token_has_everything_but_its_value() {
        let plain = serde_json::to_value(ListedToken::new(token()).unwrap()).unwrap();
        let expected = json!({
            "id": 7, "name": "ci", "sha1": "d", "created_at": "1970-01-01T00:00:01Z", "last_used_at": null,
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
            "name": "ci", "sha1": "secret", "scopes": ["repo:read", "issue"], "expires_at": "1970-01-01T00:00:02Z",
            "repositories": ["bob/demo"],
        });
        assert_eq!(serde_json::to_value(NewToken::new(made, "secret".into()).unwrap()).unwrap(), expected);
    }

    #[test]
    fn keys_have_their_own_urls() {
        let links = Links::new("http://git.example.com", "h:22");
        let at = Some(Timestamp { seconds: 1, nanos: 0 });
        let key = repo::PublicKey { id: 3, key: "k".into(), title: "t".into(), create_time: at, ..Default::default() };
        let expected = json!({
            "id": 3, "key": "k", "title": "t", "created_at": "1970-01-01T00:00:01Z",
            "url": "http://git.example.com/api/v1/user/keys/3",
        });
        assert_eq!(serde_json::to_value(PublicKey::new(key.clone(), &links).unwrap()).unwrap(), expected);
        let own = |key| serde_json::to_value(OwnPublicKey::new(key, &links).unwrap()).unwrap()["token"].take();
        assert_eq!(own(key.clone()), json!(null));
        let token = repo::KeyToken { id: 7, name: "ci".into() };
        assert_eq!(own(repo::PublicKey { token: Some(token), ..key }), json!({"id": 7, "name": "ci"}));
    }
}
