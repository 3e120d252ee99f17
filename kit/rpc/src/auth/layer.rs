//! Authenticates requests before a service handles them, and caches verified grants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use ferrite_core::Clock;
use ferrite_core::Secret;
use ferrite_core::headers::{is_grpc, single_header};
use ferrite_proto::callers::callers;
use ferrite_proto::error::{Kind, ServiceError};
use ferrite_proto::grant::{Grant, Verifier};
use ferrite_proto::metadata;
use http::{HeaderMap, HeaderValue};
use moka::Expiry;
use moka::sync::Cache;

use super::caller::Caller;
use super::error::AuthError;
use super::token_cache::TokenHash;
use super::token_validator::TokenValidator;
use crate::service_key::ServiceVerifier;

/// Verified grants in memory, whose signature is not checked again.
const MAX_CACHED_GRANTS: u64 = 10_000;
const MAX_LOGGED_OPERATION_CHARS: usize = 100;
/// Paths that need no credentials: health checks and reflection.
const PUBLIC_PREFIXES: &[&str] = &["/grpc.health.v1.Health/", "/grpc.reflection."];

/// Verifies every credential of a request before a service handles it. Rejects requests without
/// credentials, and those with an invalid one even if another one is valid. Clones share the cache.
#[derive(Clone)]
pub struct AuthLayer(Arc<Inner>);

struct Inner {
    tokens: TokenValidator,
    verifier: Arc<Verifier>,
    service_verifier: ServiceVerifier,
    clock: Clock,
    /// Verified grants with their expiry (seconds since 1970), by hash.
    grants: Cache<TokenHash, (Arc<Grant>, u64)>,
}

/// Cache policy: an entry lives as long as its grant.
struct UntilExpiry(Clock);

impl Expiry<TokenHash, (Arc<Grant>, u64)> for UntilExpiry {
    fn expire_after_create(&self, _: &TokenHash, value: &(Arc<Grant>, u64), _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(value.1.saturating_sub(self.0.now_secs())))
    }
}

impl AuthLayer {
    /// Returns a layer that accepts access tokens, grants and service tokens.
    #[must_use]
    pub fn new(
        tokens: TokenValidator,
        verifier: Arc<Verifier>,
        service_verifier: ServiceVerifier,
        clock: Clock,
    ) -> Self {
        let grants = Cache::builder().max_capacity(MAX_CACHED_GRANTS).expire_after(UntilExpiry(clock.clone())).build();
        Self(Arc::new(Inner { tokens, verifier, service_verifier, clock, grants }))
    }

    /// Verifies the credentials of `request`, adds the [`Caller`] to it, and sets the account that
    /// it writes for. Health checks and reflection need no credentials.
    ///
    /// # Errors
    /// The response to a rejected request: a gRPC status, or over plain HTTP a 401, 403 or 503.
    pub async fn admit(&self, request: &mut Request) -> Result<(), Response> {
        let path = request.uri().path();
        if PUBLIC_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) {
            return Ok(());
        }
        let operation = path.trim_start_matches('/').to_owned();
        let authenticated = self.authenticate(request.headers()).await;
        let admitted = authenticated
            .and_then(|caller| self.check_service(&caller, &operation).map(|()| Caller { operation, ..caller }));
        let caller = admitted.map_err(|error| refusal(request.headers(), error))?;
        caller.set_writer();
        request.extensions_mut().insert(caller);
        Ok(())
    }

    /// Verifies the credentials in `headers`.
    ///
    /// # Errors
    /// If there are none, one of them is invalid, or the access token cannot be checked.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, AuthError> {
        let inner = &self.0;
        let mut caller = Caller::default();
        if let Some(value) = single_value(headers, metadata::SERVICE)? {
            let role = inner.service_verifier.verify_at(value, inner.clock.now_secs());
            caller.service = Some(role.ok_or(AuthError::BadCredentials)?);
        }
        if let Some(value) = single_value(headers, metadata::GRANT)? {
            caller.grant = Some(self.grant(value)?);
        }
        if let Some(value) = single_value(headers, metadata::AUTHORIZATION)? {
            let token = bearer(value).ok_or(AuthError::BadCredentials)?;
            caller.identity = Some(inner.tokens.validate(token).await?);
            caller.token = Some(Secret::new(token));
        }
        if caller.service.is_none() && caller.grant.is_none() && caller.identity.is_none() {
            return Err(AuthError::CredentialsRequired);
        }
        Ok(caller)
    }

    /// Checks that the role of the calling process, if any, may call `operation` of this service.
    ///
    /// # Errors
    /// [`AuthError::ServiceNotPermitted`] if it may not.
    pub fn check_service(&self, caller: &Caller, operation: &str) -> Result<(), AuthError> {
        let Some(role) = caller.service else { return Ok(()) };
        let callee = self.0.service_verifier.audience();
        if callers(operation, callee).contains(&role) {
            return Ok(());
        }
        // Clipped, because the caller chooses the path.
        let operation: String = operation.chars().take(MAX_LOGGED_OPERATION_CHARS).collect();
        tracing::warn!(caller = %role, operation, "rejected a call: the caller's role is not allowed to make it");
        metrics::counter!("ferrite_service_calls_refused_total", "caller" => role.as_str()).increment(1);
        Err(AuthError::ServiceNotPermitted { role })
    }

    fn grant(&self, token: &str) -> Result<Arc<Grant>, AuthError> {
        let hash = TokenHash::of(token);
        if let Some((grant, expires)) = self.0.grants.get(&hash)
            && expires > self.0.clock.now_secs()
        {
            return Ok(grant);
        }
        let now = self.0.clock.now_secs();
        let (grant, expires) = self.0.verifier.verify_at(token, now).map_err(|_| AuthError::BadGrant)?;
        let grant = Arc::new(grant);
        self.0.grants.insert(hash, (Arc::clone(&grant), expires));
        Ok(grant)
    }
}

/// Returns the value of a header that may occur only once.
fn single_value<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, AuthError> {
    let value = single_header(headers, name).map_err(|_| AuthError::BadCredentials)?;
    value.map(HeaderValue::to_str).transpose().map_err(|_| AuthError::BadCredentials)
}

/// Returns the token of an `Authorization` value with the scheme `Bearer` or `token`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")).then(|| token.trim())
}

/// Returns a gRPC status for a gRPC request, and a plain 401, 403 or 503 for an HTTP request on the
/// same port.
fn refusal(headers: &HeaderMap, error: AuthError) -> Response {
    if is_grpc(headers) {
        return tonic::Status::from(error).into_http();
    }
    let status = match error.kind() {
        Kind::Overloaded => http::StatusCode::SERVICE_UNAVAILABLE,
        Kind::PermissionDenied => http::StatusCode::FORBIDDEN,
        _ => http::StatusCode::UNAUTHORIZED,
    };
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(metadata::REASON, HeaderValue::from_static(error.reason()));
    response
}
