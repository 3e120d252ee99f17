//! The client side of gRPC between Ferrite's processes: a channel with deadlines, retries and the caller's trace.
//!
//! Not here: the server side, which is in [`crate::server`].

mod channel;
mod retry;
mod timeout;

#[cfg(test)]
mod tests;

pub use channel::{Channel, ChannelCredentials, channel};
pub(crate) use timeout::call_deadline;
