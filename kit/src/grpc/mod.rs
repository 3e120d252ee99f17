//! The client side of gRPC between Ferrite's processes: channels to replicas and to git stores, with deadlines, retries and the
//! caller's trace.
//!
//! Not here: the server side, which is in [`crate::server`].

mod channel;
mod channel_credentials;
mod connection;
mod discovery;
mod repeatable_body;
mod replicas;
mod retry;
mod store_channel;
mod timeout;

#[cfg(test)]
mod tests;

pub use channel::{Channel, channel};
pub use channel_credentials::ChannelCredentials;
pub use connection::{CallError, is_connection_lost};
pub use store_channel::{StoreChannel, for_store};
pub(crate) use timeout::call_deadline;
pub use timeout::with_timeout;
