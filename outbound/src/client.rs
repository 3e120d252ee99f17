//! The client: addresses are checked, then dialled, then the request is sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::connect::{checked_addresses, connect};
use crate::error::SendError;
use crate::exchange::{Response, exchange};
use crate::policy::Policy;
use crate::request::Request;
use crate::resolve::{Resolve, SystemResolver};
use crate::tls;
use crate::url::{OutboundUrl, Scheme};

/// Sends requests to URLs that users give. Clones share roots and resolver.
#[derive(Clone)]
pub struct Client {
    policy: Policy,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
}

impl Client {
    /// Makes a client with the system's resolver and root certificates, which are read now.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver::default()))
    }

    /// Makes a client with another resolver.
    #[must_use]
    pub fn with_resolver(policy: Policy, resolver: Arc<dyn Resolve>) -> Self {
        Self::with_roots(policy, resolver, tls::system_roots())
    }

    /// Makes a client that trusts other roots.
    pub(crate) fn with_roots(policy: Policy, resolver: Arc<dyn Resolve>, roots: RootCertStore) -> Self {
        Self { policy, resolver, tls: tls::connector(roots) }
    }

    /// Returns the policy, which [`OutboundUrl::parse`] takes.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Resolves a URL's host once and checks all its addresses, for programs that connect by themselves: they must dial these
    /// addresses only. Takes as long as the resolver does.
    ///
    /// # Errors
    /// `RefusedAddress` if one of the addresses is not permitted, `CannotResolve` if there is none.
    pub async fn resolve(&self, url: &OutboundUrl) -> Result<Vec<SocketAddr>, SendError> {
        checked_addresses(self.resolver.as_ref(), &self.policy, url).await
    }

    /// Connects to a URL's host, at an address that was checked for this connection, within `timeout`.
    ///
    /// # Errors
    /// Those of [`Client::resolve`]; `CannotConnect` and `ConnectTimedOut`.
    pub async fn connect(&self, url: &OutboundUrl, timeout: Duration) -> Result<TcpStream, SendError> {
        let deadline = Instant::now() + timeout;
        let connecting = async {
            let addresses = self.resolve(url).await?;
            connect(&addresses, deadline).await
        };
        timeout_at(deadline, connecting).await.map_err(|_| SendError::ConnectTimedOut)?
    }

    /// Sends a request over a new connection, to an address that was checked for this request.
    ///
    /// A response whose head is complete is returned also if its body was cut; [`Response::body_end`] says why. The request may have
    /// arrived although an error is returned, except with `RefusedAddress`, `CannotResolve`, `CannotConnect`, `ConnectTimedOut`
    /// and `Tls`.
    ///
    /// # Errors
    /// The step that failed. `TimedOut` if the head of the response was not complete at the deadline.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, SendError> {
        let url = request.url;
        let deadline = Instant::now() + request.limits.total;
        let stream = self.connect(url, request.limits.total).await?;
        match url.scheme() {
            Scheme::Http => exchange(stream, request, deadline).await,
            Scheme::Https => {
                let handshake = tls::connect(&self.tls, url.host(), stream);
                let stream = timeout_at(deadline, handshake).await.map_err(|_| SendError::TimedOut)??;
                exchange(stream, request, deadline).await
            }
        }
    }
}
