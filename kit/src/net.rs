//! Addresses, listeners and streams, over TCP and Unix sockets alike.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// How long binding a port that is in use is retried.
const BIND_RETRY_TIMEOUT: Duration = Duration::from_secs(3);
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Where a process listens or is reached: `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host and port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Why a text is not an [`Address`].
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
        // A host called `unix` would read as a socket's path when the address is written down.
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
    /// When nobody listens there.
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

    /// Starts to listen. A socket file that a dead process left behind is replaced; the caller makes sure that the process is
    /// dead by a lock of its own.
    ///
    /// A port that is taken may be a dead predecessor's: a process that it was about to start holds it for another moment. So it is
    /// tried for a while.
    ///
    /// # Errors
    /// When the address is taken or not ours to use; the message names it.
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

/// Removes the socket file at `path`, if there is one, and nothing else.
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket is in the way")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// In the file system.
    Unix(UnixListener),
}

impl Listener {
    /// The next connection and, over TCP, who it comes from.
    ///
    /// # Errors
    /// When the system refuses; the next call may succeed.
    pub async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Fails on a connection that is gone already, which is no reason to stop accepting others.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            Self::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }

    /// Where this listens, with the port the system chose.
    ///
    /// # Errors
    /// When the system does not say.
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

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
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
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests;
