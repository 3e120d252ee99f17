//! The bounds on the connections of a listener: numbers, sizes and times.
//!
//! Not here: the counts of connections, which are in [`super::connections`].

use std::time::Duration;

use super::min_rate::MinRate;
use super::transport::Transport;

/// The limits and the transport of a listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerOptions {
    /// Bounds on its connections.
    pub limits: ListenerLimits,
    /// TLS and the PROXY protocol, below HTTP.
    pub transport: Transport,
}

impl From<ListenerLimits> for ListenerOptions {
    fn from(limits: ListenerLimits) -> Self {
        Self { limits, transport: Transport::default() }
    }
}

/// Limits of one listener. The default is that of listeners between services: connections beyond the limit wait, and no client is bounded
/// by its address.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// Most connections at once.
    pub connections: usize,
    /// Longest time in which a client must send the headers of a request.
    pub header_timeout: Duration,
    /// Longest time for which a client may accept no byte of a response.
    pub write_timeout: Duration,
    /// Most bytes of request line and headers.
    pub header_bytes: usize,
    /// Most requests at once on a connection of HTTP/2.
    pub streams: u32,
    /// Flow control window of a stream of HTTP/2: bytes of a request's body that wait for its reader.
    pub stream_window_bytes: u32,
    /// Flow control window of a connection of HTTP/2, for all its streams together.
    pub connection_window_bytes: u32,
    /// Bounds on clients that nobody knows; `None` for listeners between services.
    pub public: Option<PublicLimits>,
}

/// Limits of a listener that anybody may connect to. Connections beyond a limit are closed at once; when all connections of the listener are in
/// use, those that have been idle for longest make room.
#[derive(Clone, Copy, Debug)]
pub struct PublicLimits {
    /// Most connections at once of one IPv4 address, or of one IPv6 network of 64 bits.
    pub connections_per_address: usize,
    /// Most connections at once of one IPv6 network of 48 bits.
    pub connections_per_network: usize,
    /// Longest time of a connection without a request. PING frames of HTTP/2 are no requests.
    pub idle_timeout: Duration,
    /// Age after which a connection ends with the requests that it has.
    pub max_age: Duration,
    /// Slowest average rate at which a client may take a response once its pauses are longer than the write timeout in all.
    pub min_bytes_per_second: u32,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            header_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(120),
            header_bytes: 64 * 1024,
            streams: 1024,
            stream_window_bytes: 1024 * 1024,
            connection_window_bytes: 4 * 1024 * 1024,
            public: None,
        }
    }
}

impl Default for PublicLimits {
    fn default() -> Self {
        Self {
            connections_per_address: 256,
            connections_per_network: 1024,
            // Longer than proxies keep theirs (60 s in nginx): who closes first loses no request.
            idle_timeout: Duration::from_secs(75),
            max_age: Duration::from_secs(24 * 60 * 60),
            min_bytes_per_second: 1024,
        }
    }
}

impl ListenerLimits {
    /// Returns the limits of a listener for clients of the public.
    #[must_use]
    pub fn public(public: PublicLimits) -> Self {
        Self {
            write_timeout: Duration::from_secs(60),
            streams: 64,
            stream_window_bytes: 512 * 1024,
            connection_window_bytes: 1024 * 1024,
            public: Some(public),
            ..Self::default()
        }
    }

    /// Returns the rate at which a client must take a response.
    pub(super) fn response_rate(&self) -> MinRate {
        MinRate::new(self.write_timeout, self.public.map_or(0, |public| public.min_bytes_per_second))
    }
}
