//! Limits on the connections of a listener: numbers, sizes and times.

use std::time::Duration;

use super::min_rate::MinRate;
use super::transport::Transport;

/// Limits and transport of a listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerOptions {
    /// Limits on its connections.
    pub limits: ListenerLimits,
    /// TLS and the PROXY protocol.
    pub transport: Transport,
}

impl From<ListenerLimits> for ListenerOptions {
    fn from(limits: ListenerLimits) -> Self {
        Self { limits, transport: Transport::default() }
    }
}

/// Limits of one listener. The default is for listeners between services: connections beyond the
/// limit wait, and there are no limits per address.
#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Time in which a client must send the headers of a request.
    pub header_timeout: Duration,
    /// Maximum time in which a client accepts no byte of a response.
    pub write_timeout: Duration,
    /// Maximum size of request line and headers.
    pub header_bytes: usize,
    /// Maximum number of concurrent requests on an HTTP/2 connection.
    pub streams: u32,
    /// Flow control window of an HTTP/2 stream: bytes of a request body that wait for their reader.
    pub stream_window_bytes: u32,
    /// Flow control window of an HTTP/2 connection, for all its streams together.
    pub connection_window_bytes: u32,
    /// Limits on unknown clients; `None` for listeners between services.
    pub public: Option<PublicLimits>,
}

/// Limits of a public listener. Connections beyond a limit are closed at once. When all connections
/// are in use, those that have been idle for longest make room.
#[derive(Clone, Copy, Debug)]
pub struct PublicLimits {
    /// Maximum number of connections of an IPv4 address or IPv6 /64 network.
    pub connections_per_address: usize,
    /// Maximum number of connections of an IPv6 /48 network.
    pub connections_per_network: usize,
    /// Idle timeout of a connection. HTTP/2 PING frames do not count as requests.
    pub idle_timeout: Duration,
    /// Age after which a connection accepts no more requests.
    pub max_age: Duration,
    /// Minimum average rate at which a client must take a response, once its pauses add up to more
    /// than the write timeout.
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
            // Longer than the keep-alive of proxies (60 s in nginx): the side that closes first
            // loses no request.
            idle_timeout: Duration::from_secs(75),
            max_age: Duration::from_secs(24 * 60 * 60),
            min_bytes_per_second: 1024,
        }
    }
}

impl ListenerLimits {
    /// Returns the limits of a public listener.
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

    /// Returns the minimum rate at which a client must take a response.
    pub(super) fn response_rate(&self) -> MinRate {
        MinRate::new(self.write_timeout, self.public.map_or(0, |public| public.min_bytes_per_second))
    }
}
