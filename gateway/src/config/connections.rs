//! Settings of HTTP connections: their number, timeouts, and memory for slow clients.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use ferrite_listener::{ListenerLimits, PublicLimits, Quota, QuotaLimits, ResponseMemory, fit_descriptors};

/// Share of the file descriptors for HTTP connections, in eighths. Each may need a second one, to a
/// service.
const HTTP_DESCRIPTOR_EIGHTHS: usize = 3;

/// HTTP connections.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// Concurrent HTTP connections; the one idle for longest is closed to make room.
    #[arg(long, env = "FERRITE_GATEWAY_CONNECTIONS", default_value_t = 4096, value_parser = within::<u32>(1..))]
    pub connections: u32,

    /// Concurrent HTTP connections per IPv4 address or IPv6 /64; trusted proxies are exempt.
    #[arg(long, env = "FERRITE_GATEWAY_CONNECTIONS_PER_ADDRESS", default_value_t = 256, value_parser = within::<u32>(1..))]
    pub connections_per_address: u32,

    /// Concurrent HTTP connections per IPv6 /48.
    #[arg(long, env = "FERRITE_GATEWAY_CONNECTIONS_PER_NETWORK", default_value_t = 1024, value_parser = within::<u32>(1..))]
    pub connections_per_network: u32,

    /// Idle timeout of an HTTP connection, in seconds.
    #[arg(long = "idle-connection-seconds", env = "FERRITE_GATEWAY_IDLE_CONNECTION_SECONDS", default_value = "75", value_parser = seconds_within(1..))]
    pub idle_connection: Duration,

    /// Maximum age of an HTTP connection, in seconds.
    #[arg(long = "connection-seconds", env = "FERRITE_GATEWAY_CONNECTION_SECONDS", default_value = "86400", value_parser = seconds_within(1..))]
    pub connection_age: Duration,

    /// Time limit for the TLS handshake and for request headers, in seconds.
    #[arg(long = "header-seconds", env = "FERRITE_GATEWAY_HEADER_SECONDS", default_value = "15", value_parser = seconds_within(1..))]
    pub header: Duration,

    /// Concurrent requests per HTTP/2 connection.
    #[arg(long, env = "FERRITE_GATEWAY_HTTP2_STREAMS", default_value_t = 64, value_parser = within::<u32>(1..))]
    pub http2_streams: u32,

    /// Concurrent HTTP requests per IPv4 address or IPv6 /64.
    #[arg(long, env = "FERRITE_GATEWAY_REQUESTS_PER_ADDRESS", default_value_t = 512, value_parser = within::<u32>(1..))]
    pub requests_per_address: u32,

    /// Time that a client can pause while it reads a response, in seconds.
    #[arg(long = "response-pause-seconds", env = "FERRITE_GATEWAY_RESPONSE_PAUSE_SECONDS", default_value = "60", value_parser = seconds_within(1..))]
    pub response_pause: Duration,

    /// Minimum average rate of a client that pauses longer, in bytes per second.
    #[arg(long, env = "FERRITE_GATEWAY_MIN_RESPONSE_BYTES_PER_SECOND", default_value_t = NonZeroU32::new(1024).expect("not zero"), value_parser = within::<NonZeroU32>(NonZeroU32::MIN..))]
    pub min_response_bytes_per_second: NonZeroU32,

    /// Unread responses in memory per IPv4 address or IPv6 /64, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_WAITING_RESPONSE_BYTES_PER_ADDRESS", default_value_t = 64 << 20, value_parser = within::<u64>(1..))]
    pub waiting_response_bytes_per_address: u64,

    /// Unread responses in memory for all clients, in bytes.
    #[arg(long, env = "FERRITE_GATEWAY_WAITING_RESPONSE_BYTES", default_value_t = 256 << 20, value_parser = within::<u64>(1..))]
    pub waiting_response_bytes: u64,
}

impl ConnectionArgs {
    /// Limits of the HTTP listeners. The number of connections is reduced if there are too few file
    /// descriptors.
    #[must_use]
    pub fn listener_limits(&self) -> ListenerLimits {
        let public = PublicLimits {
            connections_per_address: number(self.connections_per_address),
            connections_per_network: number(self.connections_per_network),
            idle_timeout: self.idle_connection,
            max_age: self.connection_age,
            min_bytes_per_second: self.min_response_bytes_per_second.get(),
        };
        ListenerLimits {
            connections: fit_descriptors("http", number(self.connections), HTTP_DESCRIPTOR_EIGHTHS),
            header_timeout: self.header,
            write_timeout: self.response_pause,
            streams: self.http2_streams,
            ..ListenerLimits::public(public)
        }
    }

    /// Quota of concurrent requests.
    #[must_use]
    pub fn request_quota(&self) -> Quota {
        Quota::new(QuotaLimits { per_address: number(self.requests_per_address), ..QuotaLimits::NONE })
    }

    /// Memory for responses that clients have not read.
    #[must_use]
    pub fn response_memory(&self) -> ResponseMemory {
        let bytes = |setting| usize::try_from(setting).unwrap_or(usize::MAX);
        ResponseMemory::new(bytes(self.waiting_response_bytes_per_address), bytes(self.waiting_response_bytes))
    }
}

fn number(setting: u32) -> usize {
    usize::try_from(setting).unwrap_or(usize::MAX)
}
