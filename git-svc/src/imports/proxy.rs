//! A forward proxy on loopback for one transfer. It is the only way for git to reach its remote.
//!
//! The address of each connection is checked, and received bytes are counted. The proxy serves a
//! single host and port, and only clients with its password. TLS passes through unread (`CONNECT`);
//! plain HTTP is forwarded request by request. For git's own protocol the proxy is a relay that
//! writes the real server name into the first packet.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use ferrite_core::{Lifecycle, Secret};
use ferrite_outbound::{Client, SendError};
use git_store::git::{command::fetch::PROXY_USER, pktline::Packet};
use http::{
    HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri,
    header::{self, HeaderValue},
};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::{
    discovery::greeting,
    error::FetchError,
    meter::{Budget, Metered},
    remote::{Remote, Transport},
};
use crate::transfer::push::RemoteLogin;

const MAX_CONNECTIONS: usize = 8;
/// Time limit to connect to the remote.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the head of a request, which git sends at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Headers that belong to one connection.
const HOP_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type ProxyBody = Either<Incoming, Empty<Bytes>>;

/// A running proxy. Ends its connections when dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    tunnel: Arc<Tunnel>,
    _stop: DropGuard,
}

/// Shared by the connections of one proxy.
struct Tunnel {
    client: Client,
    remote: Remote,
    password: Secret,
    budget: Arc<Budget>,
    is_refused: AtomicBool,
    life: Lifecycle,
    stop: CancellationToken,
}

impl Proxy {
    /// Starts a proxy for one remote. Received bytes count against `budget`.
    pub(super) async fn start(
        client: Client,
        remote: Remote,
        budget: Arc<Budget>,
        life: &Lifecycle,
    ) -> Result<Self, FetchError> {
        let failed = |error: io::Error| git_store::types::error::GitError::io("listening for git")(error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = CancellationToken::new();
        let tunnel = Arc::new(Tunnel {
            client,
            remote,
            password: Secret::new(Uuid::new_v4().simple().to_string()),
            budget,
            is_refused: AtomicBool::new(false),
            life: life.clone(),
            stop: stop.clone(),
        });
        life.spawn("proxy", Arc::clone(&tunnel).accept(listener));
        Ok(Self { address, tunnel, _stop: stop.drop_guard() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The login of this proxy. git may know it.
    pub(super) fn login(&self) -> RemoteLogin {
        RemoteLogin {
            protocol: "http",
            host: self.address.to_string(),
            username: PROXY_USER.to_owned(),
            password: self.tunnel.password.clone(),
        }
    }

    /// Returns whether a connection was rejected because of its address.
    pub(super) fn is_refused(&self) -> bool {
        self.tunnel.is_refused.load(Ordering::Relaxed)
    }
}

impl Tunnel {
    /// Serves connections until the proxy is dropped.
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else { continue };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
            let own = Arc::clone(&self);
            self.life.spawn("proxy connection", async move {
                let _permit = permit;
                tokio::select! {
                    () = own.stop.cancelled() => {}
                    () = Arc::clone(&own).serve(stream) => {}
                }
            });
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        if self.remote.transport == Transport::Git {
            if let Err(error) = self.relay(stream).await {
                tracing::debug!(%error, "a relayed connection ended early");
            }
            return;
        }
        let own = Arc::clone(&self);
        let service = hyper::service::service_fn(move |request| {
            let own = Arc::clone(&own);
            async move { Ok::<_, Infallible>(own.answer(request).await) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a proxied connection ended early");
        }
    }

    /// Connects to the remote, after checking its address.
    async fn connect(&self) -> Result<Metered<TcpStream>, SendError> {
        let connected = self.client.connect(self.remote.server(), CONNECT_TIMEOUT).await;
        if matches!(connected, Err(SendError::RefusedAddress)) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        Ok(Metered::new(connected?, Arc::clone(&self.budget)))
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<ProxyBody> {
        if !self.is_known(request.headers()) {
            let mut response = status(StatusCode::PROXY_AUTHENTICATION_REQUIRED);
            let realm = HeaderValue::from_static("Basic realm=\"ferrite\"");
            response.headers_mut().insert(header::PROXY_AUTHENTICATE, realm);
            return response;
        }
        if !self.is_for_remote(request.method(), request.uri()) {
            return status(StatusCode::FORBIDDEN);
        }
        let stream = match self.connect().await {
            Ok(stream) => stream,
            Err(SendError::RefusedAddress) => return status(StatusCode::FORBIDDEN),
            Err(_) => return status(StatusCode::BAD_GATEWAY),
        };
        if request.method() == Method::CONNECT {
            self.life.spawn("tunnel", Arc::clone(&self).tunnel(request, stream));
            return status(StatusCode::OK);
        }
        self.forward(request, stream).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "a proxied request failed");
            status(StatusCode::BAD_GATEWAY)
        })
    }

    /// Returns whether a request has the password of this proxy.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let expected = BASE64_STANDARD.encode(format!("{PROXY_USER}:{}", self.password.expose()));
        let given = headers.get(header::PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok());
        given.and_then(|value| value.strip_prefix("Basic ")) == Some(expected.as_str())
    }

    /// Returns whether a request targets the remote of this proxy, in the way its scheme requires.
    fn is_for_remote(&self, method: &Method, uri: &Uri) -> bool {
        match self.remote.transport {
            Transport::Https => {
                method == Method::CONNECT
                    && uri.authority().is_some_and(|authority| authority.as_str() == self.remote.host_port())
            }
            Transport::Http => {
                let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
                method != Method::CONNECT
                    && uri.scheme_str() == Some("http")
                    && format!("{host}:{port}") == self.remote.host_port()
            }
            Transport::Git => false,
        }
    }

    /// Copies in both directions until one side ends.
    async fn tunnel(self: Arc<Self>, request: Request<Incoming>, mut stream: Metered<TcpStream>) {
        let copy = async {
            let upgraded = hyper::upgrade::on(request).await.map_err(io::Error::other)?;
            copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            copied = copy => if let Err(error) = copied {
                tracing::debug!(%error, "a tunnel ended early");
            },
        }
    }

    /// Forwards one request over a new connection, and returns its response.
    async fn forward(
        &self,
        request: Request<Incoming>,
        stream: Metered<TcpStream>,
    ) -> hyper::Result<Response<ProxyBody>> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let stop = self.stop.clone();
        self.life.spawn("proxied request", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a proxied request ended early");
                },
            }
        });
        let (mut parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        parts.uri = target.parse().unwrap_or_default();
        remove_hop_headers(&mut parts.headers);
        let (mut parts, body) = sender.send_request(Request::from_parts(parts, body)).await?.into_parts();
        remove_hop_headers(&mut parts.headers);
        Ok(Response::from_parts(parts, Either::Left(body)))
    }

    /// Relays a connection of git's own protocol. Its first packet names this proxy as the server,
    /// because git knows no other.
    async fn relay(&self, mut stream: TcpStream) -> io::Result<()> {
        let first = tokio::time::timeout(HEAD_TIMEOUT, Packet::read(&mut stream)).await;
        first.map_err(|_| io::ErrorKind::TimedOut)??.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut remote = self.connect().await.map_err(io::Error::other)?;
        Packet::Data(greeting(&self.remote)).write(&mut remote).await?;
        copy_bidirectional(&mut stream, &mut remote).await.map(drop)
    }
}

fn status(status: StatusCode) -> Response<ProxyBody> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in &HOP_HEADERS {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
