//! The credentials that a channel presents to a service: tokens of this process's role, and its
//! certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use ferrite_core::net::{Address, Stream};
use ferrite_core::tls::ClientTls;
use ferrite_proto::{ServiceRole, metadata};
use http::HeaderMap;

use crate::service_key::ServiceTokenSource;

/// Proves this process's role to one service: a token on every request, and a certificate if TLS is
/// on.
#[derive(Clone, Debug)]
pub struct ChannelCredentials {
    token_source: Arc<ServiceTokenSource>,
    audience: ServiceRole,
    tls: Option<ClientTls>,
}

impl ChannelCredentials {
    /// Returns credentials for a service with the role `audience`, without TLS.
    #[must_use]
    pub fn new(token_source: Arc<ServiceTokenSource>, audience: ServiceRole) -> Self {
        Self { token_source, audience, tls: None }
    }

    /// Adds TLS over TCP, if there is a certificate.
    #[must_use]
    pub fn with_tls(self, tls: Option<ClientTls>) -> Self {
        Self { tls, ..self }
    }

    pub(super) fn audience(&self) -> ServiceRole {
        self.audience
    }

    /// Returns the token for a request.
    #[must_use]
    pub fn token(&self) -> Arc<str> {
        self.token_source.token(self.audience)
    }

    /// Whether a request with these headers may be sent. Only repo-svc gets users' access tokens;
    /// the other services get grants.
    #[must_use]
    pub fn may_send(&self, headers: &HeaderMap) -> bool {
        self.audience == ServiceRole::RepoSvc || !headers.contains_key(metadata::AUTHORIZATION)
    }

    /// Opens a connection, with TLS over TCP if it is on.
    ///
    /// # Errors
    /// If the connection is refused, the host does not resolve, or one side rejects the certificate
    /// of the other.
    pub async fn connect(&self, address: &Address) -> std::io::Result<Stream> {
        match &self.tls {
            Some(tls) => address.connect_with_tls(tls).await,
            None => address.connect().await,
        }
    }

    /// Opens a connection to `socket`, one of the addresses that the host resolves to.
    pub(super) async fn connect_to(&self, address: &Address, socket: SocketAddr) -> std::io::Result<Stream> {
        address.connect_to(socket, self.tls.as_ref()).await
    }
}
