//! The client side of gRPC between Ferrite's processes: channels to replicas and to git stores, with deadlines, retries and the
//! caller's trace.
//!
//! Not here: the server side, which is in [`crate::server`].

mod channel;
mod discovery;
mod replicas;
mod retry;
mod store_channel;
mod timeout;
mod unsent_body;

#[cfg(test)]
mod tests;

pub use channel::{Channel, ChannelCredentials, channel};
pub use store_channel::{StoreChannel, for_store};
pub(crate) use timeout::call_deadline;
