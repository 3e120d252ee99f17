//! The context of a request to the API, and the extractors by which handlers say which credential they take.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use ferrite_kit::Secret;
use ferrite_kit::headers::single_header;
use ferrite_proto::metadata;
use ferrite_proto::repo::BasicCredential;
use tonic::metadata::{Ascii, MetadataValue};

use super::credential::{Credential, InvalidCredential};
use crate::http::error::{ApiError, FieldError};
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::clients::CALL_DEADLINE;
use crate::upstream::grant::Grant;

const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// Metadata for every gRPC call that is made for one request: token, request id, client address and idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    token: Option<Secret>,
    client: ClientHeaders,
    idempotency_key: Option<MetadataValue<Ascii>>,
}

impl RequestContext {
    fn of(parts: &Parts, token: Option<Secret>) -> Result<Self, ApiError> {
        Ok(Self { token, client: ClientHeaders::of(&parts.headers), idempotency_key: idempotency_key(parts)? })
    }

    /// True if the request has no token.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.token.is_none()
    }

    /// Returns the token, for the one call that takes it as a field.
    pub(crate) fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Makes a call to repo-svc with the client's token.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        self.with_token(self.request_without_token(message))
    }

    /// Makes a call with a grant of repo-svc and the client's token, for a service that asks repo-svc about the client.
    pub(crate) fn request_with_grant_and_token<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        self.with_token(self.request_with_grant(grant, message))
    }

    fn with_token<T>(&self, mut request: tonic::Request<T>) -> tonic::Request<T> {
        let bearer =
            self.token.as_ref().and_then(|token| MetadataValue::try_from(format!("Bearer {}", token.expose())).ok());
        if let Some(mut bearer) = bearer {
            bearer.set_sensitive(true);
            request.metadata_mut().insert(metadata::AUTHORIZATION, bearer);
        }
        request
    }

    /// Makes a call with a grant of repo-svc, for the other services.
    pub(crate) fn request_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_without_token(message);
        grant.insert_into(request.metadata_mut().as_mut());
        request
    }

    /// Makes a call with a grant that checks something and changes nothing. It has no idempotency key: that one belongs to the write.
    pub(crate) fn check_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_with_grant(grant, message);
        request.metadata_mut().remove(metadata::IDEMPOTENCY_KEY);
        request
    }

    /// Makes a call without the client's token, as the gateway itself.
    pub(crate) fn request_without_token<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(CALL_DEADLINE);
        self.client.insert_into(request.metadata_mut().as_mut());
        if let Some(key) = &self.idempotency_key {
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.clone());
        }
        request
    }
}

/// Returns `request` with another deadline.
pub(crate) fn with_timeout<T>(mut request: tonic::Request<T>, deadline: Duration) -> tonic::Request<T> {
    request.set_timeout(deadline);
    request
}

/// Returns the `Idempotency-Key` of a request that may change something.
///
/// # Errors
/// 422 for a malformed or repeated header.
fn idempotency_key(parts: &Parts) -> Result<Option<MetadataValue<Ascii>>, ApiError> {
    const NAME: HeaderName = HeaderName::from_static(metadata::IDEMPOTENCY_KEY);
    if parts.method.is_safe() {
        return Ok(None);
    }
    let invalid = || {
        ApiError::invalid(vec![FieldError {
            field: "Idempotency-Key".into(),
            code: "invalid".into(),
            message: "must be 1 to 255 printable ASCII characters, once".into(),
        }])
    };
    let Some(value) = single_header(&parts.headers, NAME).map_err(|_| invalid())? else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid())?;
    if text.is_empty() || text.len() > MAX_IDEMPOTENCY_KEY_BYTES {
        return Err(invalid());
    }
    MetadataValue::try_from(text).map(Some).map_err(|_| invalid())
}

/// Extracts the context of a request with a token or without any credential. A password is refused.
pub(crate) struct MaybeAuthenticated(pub(crate) RequestContext);

impl<S: Send + Sync> FromRequestParts<S> for MaybeAuthenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let token = match Credential::of(&parts.headers) {
            Ok(Credential::Absent) => None,
            Ok(Credential::Token(token)) => Some(token),
            Ok(Credential::Basic { .. }) | Err(InvalidCredential) => return Err(ApiError::bad_credentials()),
        };
        RequestContext::of(parts, token).map(Self)
    }
}

/// Extracts the context of a request with a token; others are refused.
pub(crate) struct Authenticated(pub(crate) RequestContext);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let MaybeAuthenticated(context) = MaybeAuthenticated::from_request_parts(parts, state).await?;
        if context.is_anonymous() { Err(ApiError::credentials_required()) } else { Ok(Self(context)) }
    }
}

/// Extracts the context of a request with a name and a password; others are refused.
pub(crate) struct BasicAuth(pub(crate) RequestContext, pub(crate) BasicCredential);

impl<S: Send + Sync> FromRequestParts<S> for BasicAuth {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Credential::of(&parts.headers) {
            Ok(Credential::Basic { username, password }) => {
                let credential = BasicCredential { username, password: password.expose().to_owned() };
                Ok(Self(RequestContext::of(parts, None)?, credential))
            }
            Ok(Credential::Absent | Credential::Token(_)) => Err(ApiError::credentials_required().with_challenge()),
            Err(InvalidCredential) => Err(ApiError::bad_credentials().with_challenge()),
        }
    }
}
