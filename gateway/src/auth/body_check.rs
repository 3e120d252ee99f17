//! The check of a credential before a long body is read: whose the token is, by repo-svc.
//!
//! Not here: what the caller may do, which handlers ask for.

use std::sync::Arc;

use axum::http::HeaderMap;
use ferrite_api_types::convert::require;
use ferrite_proto::repo::AuthenticateRequest;

use super::credential::{Credential, InvalidCredential};
use crate::http::body_limits::CredentialCheck;
use crate::http::error::ApiError;
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::clients::Clients;

/// Returns the check by the services behind `clients`. A request without a token has no account, one with a password neither: only the
/// bodies of tokens come with one, and those are short.
pub(crate) fn credential_check(clients: &Clients) -> CredentialCheck {
    let clients = clients.clone();
    Arc::new(move |headers: &HeaderMap| {
        let (clients, request) = (clients.clone(), request(headers));
        Box::pin(async move {
            let Some(request) = request? else { return Ok(None) };
            let response = clients.access().authenticate(request).await?.into_inner();
            Ok(Some(require(response.identity, "identity")?.user_id))
        })
    })
}

/// Returns the call about the token in `headers`, if there is one.
fn request(headers: &HeaderMap) -> Result<Option<tonic::Request<AuthenticateRequest>>, ApiError> {
    let token = match Credential::of(headers) {
        Ok(Credential::Token(token)) => token.expose().to_owned(),
        Ok(Credential::Absent | Credential::Basic { .. }) => return Ok(None),
        Err(InvalidCredential) => return Err(ApiError::bad_credentials()),
    };
    Ok(Some(ClientHeaders::of(headers).request(AuthenticateRequest { token })))
}
