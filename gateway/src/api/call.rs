//! Shared by all handlers: the API call, extractors for the kinds of credentials, and macros for
//! routes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::Deref;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use ferrite_core::Secret;
use ferrite_core::headers::single_header;
use ferrite_listener::Client;
use ferrite_proto::metadata;
use ferrite_proto::repo::BasicCredential;
use ferrite_rpc::version::VersionedCall;
use tonic::metadata::{Ascii, MetadataValue};

use super::state::{ApiParts, ApiState};
use crate::auth::{CROSS_SITE, Credential, InvalidCredential, is_cross_site};
use crate::http::client_address;
use crate::http::describe::Input;
use crate::http::error::ApiError;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::grant::Grant;

/// Path prefix of the routes for administrators.
const ADMIN_PREFIX: &str = "/api/v1/admin/";
/// Path prefix of the routes for the caller's own account.
const OWN_PREFIX: &str = "/api/v1/user/";
/// Not the pictures of accounts and the files of releases, which browsers load without a token.
const API_PREFIX: &str = "/api/v1/";
const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// An API call: the state, and the metadata of every gRPC call made for it (token, request id,
/// client address, idempotency key and precondition).
#[derive(Clone)]
pub(crate) struct ApiCall {
    pub(super) state: ApiState,
    /// Whether the caller acts as an administrator of the site: true on the routes of
    /// administrators.
    pub(super) as_administrator: bool,
    pub(super) token: Option<Secret>,
    client: ClientHeaders,
    address: Option<IpAddr>,
    idempotency_key: Option<MetadataValue<Ascii>>,
    /// The precondition of a write, or the request for a version. The channel adds it only to the
    /// call of its operation.
    versioned: Option<VersionedCall>,
}

impl Deref for ApiCall {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.state
    }
}

impl ApiCall {
    fn of(parts: &Parts, state: &ApiState, token: Option<Secret>) -> Result<Self, ApiError> {
        Ok(Self {
            state: state.clone(),
            as_administrator: is_below(parts, ADMIN_PREFIX),
            token,
            client: ClientHeaders::of(&parts.headers),
            address: client_address::counted_client(&parts.headers, None).address,
            idempotency_key: idempotency_key(parts)?,
            versioned: parts.extensions.get::<VersionedCall>().cloned(),
        })
    }

    pub(crate) fn counted_client(&self, user: Option<i64>) -> Client {
        Client { address: self.address, user }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.token.is_none()
    }

    pub(crate) fn has_idempotency_key(&self) -> bool {
        self.idempotency_key.is_some()
    }

    /// Builds a call to repo-svc with the client's token, which no other service gets.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = self.request_without_token(message);
        let bearer =
            self.token.as_ref().and_then(|token| MetadataValue::try_from(format!("Bearer {}", token.expose())).ok());
        if let Some(mut bearer) = bearer {
            bearer.set_sensitive(true);
            request.metadata_mut().insert(metadata::AUTHORIZATION, bearer);
        }
        request
    }

    /// Builds a call to another service with a grant of repo-svc.
    pub(crate) fn request_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_without_token(message);
        grant.insert_into(request.metadata_mut().as_mut());
        request
    }

    /// Builds a call with a grant and a blank request, for
    /// [`after_refusal`](super::access::after_refusal). It has no idempotency key and no
    /// precondition, because those belong to the write.
    pub(crate) fn blank_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_with_grant(grant, message);
        request.metadata_mut().remove(metadata::IDEMPOTENCY_KEY);
        request.extensions_mut().remove::<VersionedCall>();
        request
    }

    /// Builds a call of the gateway itself, without the client's token.
    pub(crate) fn request_without_token<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = self.client.request(message);
        if let Some(key) = &self.idempotency_key {
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.clone());
        }
        if let Some(versioned) = &self.versioned {
            request.extensions_mut().insert(versioned.clone());
        }
        request
    }
}

/// Returns true if the route of a request begins with `prefix`.
fn is_below(parts: &Parts, prefix: &str) -> bool {
    parts.extensions.get::<MatchedPath>().is_some_and(|template| template.as_str().starts_with(prefix))
}

/// Returns the `Idempotency-Key` of a write. 422 for a malformed or repeated header.
fn idempotency_key(parts: &Parts) -> Result<Option<MetadataValue<Ascii>>, ApiError> {
    const NAME: HeaderName = HeaderName::from_static(metadata::IDEMPOTENCY_KEY);
    if parts.method.is_safe() {
        return Ok(None);
    }
    let invalid = || {
        let message = "must be a single header of 1 to 255 printable ASCII characters";
        ApiError::invalid_field("Idempotency-Key", "invalid", message)
    };
    let Some(value) = single_header(&parts.headers, NAME).map_err(|_| invalid())? else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid())?;
    // A header may also have tabs.
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if text.is_empty() || text.len() > MAX_IDEMPOTENCY_KEY_BYTES || !is_printable {
        return Err(invalid());
    }
    MetadataValue::try_from(text).map(Some).map_err(|_| invalid())
}

/// Extracts a call with a token or without credentials; rejects passwords. A route for the caller's
/// own account needs a token.
pub(crate) struct MaybeAuthenticated(pub(crate) ApiCall);

impl FromRequestParts<ApiState> for MaybeAuthenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let token = match Credential::of(&parts.headers) {
            Ok(Credential::Absent) if is_below(parts, OWN_PREFIX) => return Err(ApiError::credentials_required()),
            Ok(Credential::Absent) if state.requires_account && is_below(parts, API_PREFIX) => {
                return Err(ApiError::credentials_required());
            }
            Ok(Credential::Absent) => None,
            Ok(Credential::Token(token)) => Some(token),
            Ok(Credential::Basic { .. }) => return Err(ApiError::token_required()),
            Err(InvalidCredential) => return Err(ApiError::bad_credentials()),
        };
        ApiCall::of(parts, state, token).map(Self)
    }
}

/// Extracts nothing: marks an operation that looks at no credentials.
pub(crate) struct Public;

impl FromRequestParts<ApiState> for Public {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &ApiState) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

/// Extracts a call with a token; rejects all others.
pub(crate) struct Authenticated(pub(crate) ApiCall);

impl FromRequestParts<ApiState> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let MaybeAuthenticated(call) = MaybeAuthenticated::from_request_parts(parts, state).await?;
        if call.is_anonymous() { Err(ApiError::credentials_required()) } else { Ok(Self(call)) }
    }
}

impl Input for Authenticated {}

impl Input for MaybeAuthenticated {}

impl Input for Public {}

impl Input for BasicAuth {}

/// Extracts a call with a name and a password. Rejects others, and writes from pages of other
/// sites.
pub(crate) struct BasicAuth(pub(crate) ApiCall, pub(crate) BasicCredential);

impl FromRequestParts<ApiState> for BasicAuth {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        match Credential::of(&parts.headers) {
            Ok(Credential::Basic { .. }) if !parts.method.is_safe() && is_cross_site(&parts.headers) => {
                Err(ApiError::new(StatusCode::FORBIDDEN, CROSS_SITE))
            }
            Ok(Credential::Basic { username, password }) => {
                let credential = BasicCredential { username, password: password.expose().to_owned() };
                Ok(Self(ApiCall::of(parts, state, None)?, credential))
            }
            Ok(Credential::Absent) => Err(ApiError::credentials_required().asking_for_password()),
            Ok(Credential::Token(_)) => Err(ApiError::password_required().asking_for_password()),
            Err(InvalidCredential) => Err(ApiError::bad_credentials().asking_for_password()),
        }
    }
}

/// Defines the functions `routes` and `router` of the API, as [`crate::http::routes::operations`].
macro_rules! operations {
    ($($routes:tt)+) => {
        $crate::http::routes::operations! { $crate::api::ApiState: $($routes)+ }
    };
}

macro_rules! groups {
    ($($group:ident)+) => {
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            [$($group::routes()),+].concat()
        }

        pub(crate) fn router() -> axum::Router<$crate::api::ApiState> {
            axum::Router::new()$(.merge($group::router()))+
        }
    };
}

pub(super) use {groups, operations};
