//! Failures of requests. Their texts are stable and neutral: the log of deliveries shows them to users, so they hold no address and no
//! words of libraries.

/// The reason for which a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SendError {
    /// An address of the host is neither public nor permitted. No packet was sent.
    #[error("refused address")]
    RefusedAddress,
    /// The name has no address, or the resolver failed.
    #[error("cannot resolve")]
    CannotResolve,
    /// None of the addresses accepted a connection.
    #[error("cannot connect")]
    CannotConnect,
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(TlsFault),
    /// The deadline passed before there was a connection.
    #[error("timed out")]
    ConnectTimedOut,
    /// The deadline passed before the head of the response was complete, with a connection.
    #[error("timed out")]
    TimedOut,
    /// The connection closed or broke before the head of the response was complete.
    #[error("connection lost")]
    ConnectionLost,
    /// The bytes received are not a response of HTTP/1.
    #[error("response is not HTTP")]
    NotHttp,
    /// The head of the response is longer than 64 KiB or has more than 100 headers.
    #[error("response head is too large")]
    HeadTooLarge,
}

/// The reason for which a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TlsFault {
    /// The certificate's chain does not lead to a root of this system, or may not be used by servers.
    #[error("TLS failed: the certificate is not trusted")]
    Untrusted,
    /// The certificate is not valid now.
    #[error("TLS failed: the certificate has expired or is not valid yet")]
    Expired,
    /// The certificate is for other names.
    #[error("TLS failed: the certificate is for another host")]
    WrongHost,
    /// All others: the server does not speak TLS, or only versions and ciphers that are unsafe.
    #[error("TLS failed")]
    Other,
}
