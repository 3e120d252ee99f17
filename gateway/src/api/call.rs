//! What all files of handlers use: one call of the API, the extractors by which handlers say which credential they take, and the macros
//! for routes.

use std::net::IpAddr;
use std::ops::Deref;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::HeaderName;
use axum::http::request::Parts;
use ferrite_core::Secret;
use ferrite_core::headers::single_header;
use ferrite_listener::Client;
use ferrite_proto::metadata;
use ferrite_proto::repo::BasicCredential;
use ferrite_rpc::version::VersionedCall;
use tonic::metadata::{Ascii, MetadataValue};

use super::state::{ApiParts, ApiState};
use crate::auth::{Credential, InvalidCredential};
use crate::http::client_address;
use crate::http::describe::Input;
use crate::http::error::ApiError;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::grant::Grant;

/// Begin of the routes of administrators.
const ADMIN_PREFIX: &str = "/api/v1/admin/";
const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// One call of the API: the parts that its handler uses, and the metadata for every gRPC call that is made for it: token, request id,
/// client address, idempotency key and precondition.
#[derive(Clone)]
pub(crate) struct ApiCall {
    pub(super) state: ApiState,
    /// True on the routes of administrators, on which the caller acts as an administrator of the site.
    pub(super) as_administrator: bool,
    pub(super) token: Option<Secret>,
    client: ClientHeaders,
    address: Option<IpAddr>,
    idempotency_key: Option<MetadataValue<Ascii>>,
    /// The precondition of a write, or the question for a version. The channel gives it to the call of its operation alone.
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
        let template = parts.extensions.get::<MatchedPath>();
        Ok(Self {
            state: state.clone(),
            as_administrator: template.is_some_and(|template| template.as_str().starts_with(ADMIN_PREFIX)),
            token,
            client: ClientHeaders::of(&parts.headers),
            address: client_address::counted_client(&parts.headers, None).address,
            idempotency_key: idempotency_key(parts)?,
            versioned: parts.extensions.get::<VersionedCall>().cloned(),
        })
    }

    /// Returns the client as limits count it, with its account where that is known.
    pub(crate) fn counted_client(&self, user: Option<i64>) -> Client {
        Client { address: self.address, user }
    }

    /// True if the request has no token.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.token.is_none()
    }

    /// Makes a call to repo-svc with the client's token, which goes to no other service.
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

    /// Makes a call with a grant of repo-svc, for the other services.
    pub(crate) fn request_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_without_token(message);
        grant.insert_into(request.metadata_mut().as_mut());
        request
    }

    /// Makes a call with a grant and a blank request, for [`after_refusal`](super::access::after_refusal). It has neither
    /// idempotency key nor precondition: those belong to the write.
    pub(crate) fn blank_with_grant<T>(&self, grant: &Grant, message: T) -> tonic::Request<T> {
        let mut request = self.request_with_grant(grant, message);
        request.metadata_mut().remove(metadata::IDEMPOTENCY_KEY);
        request.extensions_mut().remove::<VersionedCall>();
        request
    }

    /// Makes a call without the client's token, as the gateway itself.
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
        let message = "must be 1 to 255 printable ASCII characters, once";
        ApiError::invalid_field("Idempotency-Key", "invalid", message)
    };
    let Some(value) = single_header(&parts.headers, NAME).map_err(|_| invalid())? else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid())?;
    if text.is_empty() || text.len() > MAX_IDEMPOTENCY_KEY_BYTES {
        return Err(invalid());
    }
    MetadataValue::try_from(text).map(Some).map_err(|_| invalid())
}

/// Extracts a call with a token or without any credential. A password is refused.
pub(crate) struct MaybeAuthenticated(pub(crate) ApiCall);

impl FromRequestParts<ApiState> for MaybeAuthenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let token = match Credential::of(&parts.headers) {
            Ok(Credential::Absent) => None,
            Ok(Credential::Token(token)) => Some(token),
            Ok(Credential::Basic { .. }) | Err(InvalidCredential) => return Err(ApiError::bad_credentials()),
        };
        ApiCall::of(parts, state, token).map(Self)
    }
}

/// Extracts a call with a token; others are refused.
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

impl Input for BasicAuth {}

/// Extracts a call with a name and a password; others are refused.
pub(crate) struct BasicAuth(pub(crate) ApiCall, pub(crate) BasicCredential);

impl FromRequestParts<ApiState> for BasicAuth {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        match Credential::of(&parts.headers) {
            Ok(Credential::Basic { username, password }) => {
                let credential = BasicCredential { username, password: password.expose().to_owned() };
                Ok(Self(ApiCall::of(parts, state, None)?, credential))
            }
            Ok(Credential::Absent) => Err(ApiError::credentials_required().with_challenge()),
            Ok(Credential::Token(_)) => Err(ApiError::password_required().with_challenge()),
            Err(InvalidCredential) => Err(ApiError::bad_credentials().with_challenge()),
        }
    }
}

/// Makes the functions `routes` and `router` of the API's routes, as [`crate::http::routes::operations`].
macro_rules! operations {
    ($($routes:tt)+) => {
        $crate::http::routes::operations! { $crate::api::ApiState: $($routes)+ }
    };
}

/// Makes the functions `routes` and `router` of a folder, with the routes of the modules that it is given.
macro_rules! groups {
    ($($group:ident)+) => {
        /// Returns the routes that [`router`] serves.
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            [$($group::routes()),+].concat()
        }

        /// Returns the router that serves [`routes`].
        pub(crate) fn router() -> axum::Router<$crate::api::ApiState> {
            axum::Router::new()$(.merge($group::router()))+
        }
    };
}

pub(super) use {groups, operations};
