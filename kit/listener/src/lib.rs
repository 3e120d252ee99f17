//! The servers of a process: HTTP/1.1 and HTTP/2 on one port, gRPC on top, and the private listener
//! for probes and metrics. Public connections are limited in number, time and rate, and responses
//! that wait for their clients in size.

#![warn(missing_docs, clippy::missing_errors_doc)]

mod activity;
mod admin;
mod connections;
pub mod credentials;
mod descriptors;
mod grpc;
mod limits;
mod linger;
mod min_rate;
mod process;
mod proxy_protocol;
mod quota;
mod response_memory;
mod serve;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;
#[cfg(test)]
mod tests;
mod timeout_stream;
mod tracked_body;
mod transport;
mod trusted_proxies;

pub use admin::serve_admin;
pub use connections::{ConnectionSlot, ConnectionTable};
pub use descriptors::{fit_descriptors, raise_descriptor_limit};
pub use grpc::{GrpcServer, MAX_MESSAGE_BYTES};
pub use limits::{ListenerLimits, ListenerOptions, PublicLimits};
pub use linger::UnreadBody;
pub use process::ProcessArgs;
pub use quota::{Client, Quota, QuotaFull, QuotaLimits, Share, counted_address};
pub use response_memory::{ResponseMemory, ResponseMemoryFull};
pub use serve::{Peer, serve, serve_all};
pub use tracked_body::RequestPermit;
pub use transport::Transport;
pub use trusted_proxies::{BadProxy, TrustedProxies};
