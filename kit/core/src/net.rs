//! Addresses, listeners and streams: TCP with or without TLS, and Unix sockets.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

use crate::tls::ClientTls;

mod service_addresses;
mod store_addresses;

pub use service_addresses::{BadServiceAddresses, ServiceAddresses};
pub use store_addresses::{BadStoreAddresses, BadStoreName, NoStoreAddress, StoreAddresses, StoreName};

/// How long to retry binding a port that is in use.
const BIND_RETRY_TIMEOUT: Duration = Duration::from_secs(3);
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The address of a listener: `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host and port.
    Tcp(String),
    /// The path of a socket file.
    Unix(PathBuf),
}

/// The text is not an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address must be `HOST:PORT` or `unix:PATH`")]
pub struct BadAddress;

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(BadAddress) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let authority = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or(BadAddress)?;
        port.parse::<u16>().map_err(|_| BadAddress)?;
        // `unix:80` would be displayed like the socket path `80`, and parsed back as one.
        if host.is_empty() || host == "unix" || authority.contains('/') {
            return Err(BadAddress);
        }
        Ok(Self::Tcp(authority.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => out.write_str(authority),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Opens a connection.
    ///
    /// # Errors
    /// If the connection is refused or the host does not resolve.
    pub async fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Like [`Address::connect`], with mutual TLS over TCP. The server's certificate must name the
    /// host of this address.
    ///
    /// # Errors
    /// Also if one side rejects the certificate of the other.
    pub async fn connect_with_tls(&self, tls: &ClientTls) -> io::Result<Stream> {
        let Self::Tcp(authority) = self else { return self.connect().await };
        let name = self.tls_name()?;
        tls_stream(TcpStream::connect(authority).await?, name, tls).await
    }

    /// Opens a connection to `socket`, one of the addresses that the host resolves to, with mutual
    /// TLS if `tls` is given.
    ///
    /// # Errors
    /// If the connection is refused, or one side rejects the certificate of the other.
    pub async fn connect_to(&self, socket: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Stream> {
        let stream = TcpStream::connect(socket).await?;
        match tls {
            Some(tls) => tls_stream(stream, self.tls_name()?, tls).await,
            None => {
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// Returns `HOST:PORT` if the host is a name that may resolve to several machines, which
    /// excludes `localhost`.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        match self {
            Self::Tcp(authority) if !self.is_local() && host(authority).parse::<IpAddr>().is_err() => Some(authority),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Returns the name that the server's certificate must have.
    fn tls_name(&self) -> io::Result<ServerName<'static>> {
        let name = match self {
            Self::Tcp(authority) => ServerName::try_from(host(authority).to_owned()).ok(),
            Self::Unix(_) => None,
        };
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("`{self}` has no name for TLS")))
    }

    /// Whether connections stay on this machine: a Unix socket, a loopback address, or `localhost`.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(authority) => {
                let host = host(authority);
                let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
                host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
            }
        }
    }

    /// Starts to listen. Replaces an existing socket file: the caller must hold a lock that proves
    /// that the process which made it has ended.
    ///
    /// Retries a TCP port in use for 3 seconds, because a child that a process was starting when it
    /// ended can hold the port a moment longer.
    ///
    /// # Errors
    /// If the address is in use or not permitted. The message names the address.
    pub async fn bind(&self) -> io::Result<Listener> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {self}: {error}"));
        match self {
            Self::Tcp(authority) => {
                let started = Instant::now();
                loop {
                    match TcpListener::bind(authority).await {
                        Ok(listener) => return Ok(Listener::Tcp(listener)),
                        Err(error)
                            if error.kind() == io::ErrorKind::AddrInUse && started.elapsed() < BIND_RETRY_TIMEOUT =>
                        {
                            tokio::time::sleep(BIND_RETRY_INTERVAL).await;
                        }
                        Err(error) => return Err(named(error)),
                    }
                }
            }
            Self::Unix(path) => {
                remove_socket(path).map_err(named)?;
                Ok(Listener::Unix(UnixListener::bind(path).map_err(named)?))
            }
        }
    }
}

async fn tls_stream(stream: TcpStream, name: ServerName<'static>, tls: &ClientTls) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    let stream = tls.connector().connect(name, stream).await?;
    Ok(Stream::Tls(Box::new(stream.into())))
}

/// Returns the host of a `HOST:PORT`, without the brackets of an IPv6 address.
fn host(authority: &str) -> &str {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
}

/// Removes the socket file at `path`, if any. Fails for any other type of file.
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// A TCP listener.
    Tcp(TcpListener),
    /// A listener on a Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// Accepts a connection. Returns it with the client's address, which is `None` over a Unix
    /// socket.
    ///
    /// # Errors
    /// If the system call fails. The next call may succeed.
    pub async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Fails if the client has already disconnected, which must not end the accept loop.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            Self::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }

    /// Returns the address, with the actual port if the listener was bound to port 0.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Address::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default())
            }
        })
    }
}

/// A connection over TCP, with or without TLS, or over a Unix socket.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection with TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
    /// A connection over a Unix socket.
    Unix(UnixStream),
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests;
