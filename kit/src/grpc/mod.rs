//! The client side of gRPC between Ferrite's processes: channels to replicas and to git stores, with deadlines, retries and the
//! caller's trace.
//!
//! Not here: the server side, which is in [`crate::server`].

mod channel;
mod channel_credentials;
mod discovery;
mod repeatable_body;
mod replicas;
mod retry;
mod store_channel;
mod timeout;

#[cfg(test)]
mod tests;

use std::error::Error;

pub use channel::{Channel, channel};
pub use channel_credentials::ChannelCredentials;
pub use store_channel::{StoreChannel, for_store};
pub(crate) use timeout::call_deadline;

/// Returns the first error of type `E` in the chain of an error and its causes.
fn find_cause<'a, E: Error + 'static>(mut error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    loop {
        match error.downcast_ref() {
            Some(found) => return Some(found),
            None => error = error.source()?,
        }
    }
}
