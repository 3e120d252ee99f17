//! The gRPC client: channels to replicas and to git stores, with deadlines, retries and the
//! caller's trace.

mod channel;
mod channel_credentials;
mod connection;
mod discovery;
mod repeatable_body;
mod replicas;
mod retry;
mod store_channel;
mod timeout;

pub use channel::{Channel, channel, channel_with_resolver};
pub use channel_credentials::ChannelCredentials;
pub use connection::{CallError, is_connection_lost, is_unsent};
pub use discovery::{Resolver, system_resolver};
pub use store_channel::{StoreChannel, for_store};
pub use timeout::{call_deadline, with_timeout};
