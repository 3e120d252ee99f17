//! What a client brought to say who it is. Nothing is checked here: that is for repo-svc.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_kit::Secret;
use ferrite_proto::metadata;
use ferrite_proto::repo::BasicCredential;
use tonic::metadata::{Ascii, MetadataValue};

use crate::http::error::{ApiError, FieldError};
use crate::upstream::clients::DEADLINE;

const MAX_TOKEN_BYTES: usize = 255;
const MAX_BASIC_BYTES: usize = 4096;
const MAX_KEY_BYTES: usize = 255;

/// The credential of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// None was sent.
    Nobody,
    /// A personal access token.
    Token(Secret),
    /// A name and a password.
    Basic {
        /// A user name or e-mail address.
        username: String,
        /// Its password.
        password: Secret,
    },
}

/// A credential was sent, and has no form we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadCredential;

impl Credential {
    /// The credential in `headers`.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, BadCredential> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Ok(Self::Nobody),
            (Some(value), None) => value.to_str().map_err(|_| BadCredential)?,
            // Two values are an attempt to be two people.
            (Some(_), Some(_)) => return Err(BadCredential),
        };
        Self::parse(value)
    }

    fn parse(value: &str) -> Result<Self, BadCredential> {
        let (scheme, rest) = value.trim().split_once(' ').ok_or(BadCredential)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("token") || scheme.eq_ignore_ascii_case("bearer") {
            let is_sane =
                (1..=MAX_TOKEN_BYTES).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_graphic());
            return if is_sane { Ok(Self::Token(Secret::new(rest))) } else { Err(BadCredential) };
        }
        if !scheme.eq_ignore_ascii_case("basic") || rest.len() > MAX_BASIC_BYTES {
            return Err(BadCredential);
        }
        let bytes = STANDARD.decode(rest).map_err(|_| BadCredential)?;
        let text = String::from_utf8(bytes).map_err(|_| BadCredential)?;
        let (username, password) = text.split_once(':').ok_or(BadCredential)?;
        if text.contains('\0') {
            return Err(BadCredential);
        }
        Ok(Self::Basic { username: username.to_owned(), password: Secret::new(password) })
    }
}

/// What travels with every call that is made for one request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    token: Option<Secret>,
    request_id: Option<MetadataValue<Ascii>>,
    client: Option<MetadataValue<Ascii>>,
    idempotency_key: Option<MetadataValue<Ascii>>,
}

impl Call {
    fn of(parts: &Parts, token: Option<Secret>) -> Result<Self, ApiError> {
        let header = |name| parts.headers.get(name).and_then(|value| MetadataValue::try_from(value.as_bytes()).ok());
        let (request_id, client) = (header(metadata::REQUEST_ID), header(metadata::CLIENT));
        Ok(Self { token, request_id, client, idempotency_key: idempotency_key(parts)? })
    }

    /// Whether nobody has signed in.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.token.is_none()
    }

    /// The token, for the one call that takes it as data.
    pub(crate) fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// A call to repo-svc, as the client.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = self.bare(message);
        let bearer =
            self.token.as_ref().and_then(|token| MetadataValue::try_from(format!("Bearer {}", token.expose())).ok());
        if let Some(mut bearer) = bearer {
            bearer.set_sensitive(true);
            request.metadata_mut().insert(metadata::AUTHORIZATION, bearer);
        }
        request
    }

    /// A call with a grant.
    pub(crate) fn granted<T>(&self, grant: &str, message: T) -> tonic::Request<T> {
        let mut request = self.bare(message);
        if let Ok(mut grant) = MetadataValue::try_from(grant) {
            grant.set_sensitive(true);
            request.metadata_mut().insert(metadata::GRANT, grant);
        }
        request
    }

    /// A call as the gateway itself.
    pub(crate) fn bare<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(DEADLINE);
        if let Some(id) = &self.request_id {
            request.metadata_mut().insert(metadata::REQUEST_ID, id.clone());
        }
        if let Some(client) = &self.client {
            request.metadata_mut().insert(metadata::CLIENT, client.clone());
        }
        if let Some(key) = &self.idempotency_key {
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.clone());
        }
        request
    }
}

/// `request` with a deadline of its own.
pub(crate) fn within<T>(mut request: tonic::Request<T>, deadline: Duration) -> tonic::Request<T> {
    request.set_timeout(deadline);
    request
}

fn idempotency_key(parts: &Parts) -> Result<Option<MetadataValue<Ascii>>, ApiError> {
    const NAME: HeaderName = HeaderName::from_static(metadata::IDEMPOTENCY_KEY);
    if parts.method.is_safe() {
        return Ok(None);
    }
    let refused = || {
        ApiError::invalid(vec![FieldError {
            field: "Idempotency-Key".into(),
            code: "invalid".into(),
            message: "must be 1 to 255 printable ASCII characters, once".into(),
        }])
    };
    let mut values = parts.headers.get_all(NAME).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| refused())?;
    if text.is_empty() || text.len() > MAX_KEY_BYTES || values.next().is_some() {
        return Err(refused());
    }
    MetadataValue::try_from(text).map(Some).map_err(|_| refused())
}

/// A caller who may be nobody. A password is refused.
pub(crate) struct Anyone(pub(crate) Call);

impl<S: Send + Sync> FromRequestParts<S> for Anyone {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let token = match Credential::of(&parts.headers) {
            Ok(Credential::Nobody) => None,
            Ok(Credential::Token(token)) => Some(token),
            Ok(Credential::Basic { .. }) | Err(BadCredential) => return Err(ApiError::bad_credentials()),
        };
        Call::of(parts, token).map(Self)
    }
}

/// A caller with a token.
pub(crate) struct Signed(pub(crate) Call);

impl<S: Send + Sync> FromRequestParts<S> for Signed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Anyone(call) = Anyone::from_request_parts(parts, state).await?;
        if call.is_anonymous() { Err(ApiError::credentials_required()) } else { Ok(Self(call)) }
    }
}

/// A caller with a password.
pub(crate) struct Password(pub(crate) Call, pub(crate) BasicCredential);

impl<S: Send + Sync> FromRequestParts<S> for Password {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Credential::of(&parts.headers) {
            Ok(Credential::Basic { username, password }) => {
                let credential = BasicCredential { username, password: password.expose().to_owned() };
                Ok(Self(Call::of(parts, None)?, credential))
            }
            Ok(Credential::Nobody | Credential::Token(_)) => Err(ApiError::credentials_required().challenged()),
            Err(BadCredential) => Err(ApiError::bad_credentials().challenged()),
        }
    }
}

/// The headers that matter to the answer, for handlers that look at one of them.
pub(crate) struct Headers(pub(crate) HeaderMap);

impl<S: Send + Sync> FromRequestParts<S> for Headers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.clone()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> Result<Credential, BadCredential> {
        Ok(Credential::Token(Secret::new(text)))
    }

    #[test]
    fn the_word_before_a_token_has_any_case_and_any_blanks() {
        for value in ["token abc", "Token abc", "TOKEN   abc ", "bearer abc", "Bearer abc"] {
            assert_eq!(Credential::parse(value), token("abc"), "{value}");
        }
    }

    #[test]
    fn basic_is_split_at_its_first_colon() {
        let value = format!("basic {}", STANDARD.encode("ada:pass:word"));
        let expected = Credential::Basic { username: "ada".into(), password: Secret::new("pass:word") };
        assert_eq!(Credential::parse(&value), Ok(expected));
    }

    #[test]
    fn what_has_no_known_form_is_refused() {
        for value in
            ["", "token", "token ", "abc", "Digest x", "Basic !", "Basic YQ", "Basic YQ==", "token a b", "token é"]
        {
            assert_eq!(Credential::parse(value), Err(BadCredential), "{value}");
        }
    }

    #[test]
    fn two_credentials_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(Credential::of(&headers), Ok(Credential::Nobody));
        headers.append(AUTHORIZATION, "token abc".parse().unwrap());
        assert_eq!(Credential::of(&headers), token("abc"));
        headers.append(AUTHORIZATION, "token def".parse().unwrap());
        assert_eq!(Credential::of(&headers), Err(BadCredential));
    }

    proptest! {
        #[test]
        fn no_header_panics_and_tokens_are_printable(value in any::<String>()) {
            if let Ok(Credential::Token(token)) = Credential::parse(&value) {
                prop_assert!(token.expose().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }

        #[test]
        fn what_basic_encodes_is_read_back(username in "[^:\0]{0,20}", password in "[^\0]{0,20}") {
            let value = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
            let expected = Credential::Basic { username, password: Secret::new(password) };
            prop_assert_eq!(Credential::parse(&value), Ok(expected));
        }
    }
}
