//! The client: checks the addresses, connects, and sends the request.

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

/// Sends requests to URLs from users. Clones share roots and resolver.
#[derive(Clone)]
pub struct Client {
    policy: Policy,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
}

impl Client {
    /// Creates a client with the system's resolver and root certificates, which are read now.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver::default()))
    }

    /// Creates a client with another resolver.
    #[must_use]
    pub fn with_resolver(policy: Policy, resolver: Arc<dyn Resolve>) -> Self {
        Self::with_roots(policy, resolver, tls::system_roots())
    }

    pub(crate) fn with_roots(policy: Policy, resolver: Arc<dyn Resolve>, roots: RootCertStore) -> Self {
        Self { policy, resolver, tls: tls::connector(roots) }
    }

    /// The policy, for [`OutboundUrl::parse`].
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Resolves a URL's host and checks all addresses, for programs that connect themselves. They
    /// must connect to no others. There is no time limit.
    ///
    /// # Errors
    /// `RefusedAddress` if any address is not permitted, `CannotResolve` if there is none.
    pub async fn resolve(&self, url: &OutboundUrl) -> Result<Vec<SocketAddr>, SendError> {
        checked_addresses(self.resolver.as_ref(), &self.policy, url).await
    }

    /// Connects to a URL's host at a checked address, within `timeout`.
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

    /// Sends a request over a new connection to a checked address.
    ///
    /// A response with a complete head is returned even if its body was cut; [`Response::body_end`]
    /// says why. After an error, the request may still have arrived, except after `RefusedAddress`,
    /// `CannotResolve`, `CannotConnect`, `ConnectTimedOut` and `Tls`.
    ///
    /// # Errors
    /// Which step failed. `TimedOut` if the response head was incomplete at the deadline.
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
