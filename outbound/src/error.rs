//! Errors of requests. The delivery log shows the messages to users, so they are stable, and
//! contain no addresses and no text from libraries.

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SendError {
    /// An address of the host is neither public nor permitted. Nothing was sent.
    #[error("refused address")]
    RefusedAddress,
    /// The name has no address, or the resolver failed.
    #[error("cannot resolve")]
    CannotResolve,
    /// No address accepted a connection.
    #[error("cannot connect")]
    CannotConnect,
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(TlsFault),
    /// The deadline passed before connecting.
    #[error("timed out")]
    ConnectTimedOut,
    /// The deadline passed after connecting, before the response head was complete.
    #[error("timed out")]
    TimedOut,
    /// The connection closed or broke before the response head was complete.
    #[error("connection lost")]
    ConnectionLost,
    /// The response is not HTTP/1.
    #[error("response is not HTTP")]
    NotHttp,
    /// The response head has more than 64 KiB or more than 100 headers.
    #[error("response head is too large")]
    HeadTooLarge,
}

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TlsFault {
    /// The certificate chain leads to no root of this system, or is not for servers.
    #[error("TLS failed: the certificate is not trusted")]
    Untrusted,
    /// The certificate is not valid at this time.
    #[error("TLS failed: the certificate has expired or is not valid yet")]
    Expired,
    /// The certificate is for other hosts.
    #[error("TLS failed: the certificate is for another host")]
    WrongHost,
    /// Anything else: the server does not speak TLS, or only unsafe versions and ciphers.
    #[error("TLS failed")]
    Other,
}
