//! gRPC between Ferrite's processes: one way to serve it and one way to call it.

mod channel;
mod client;
mod retry;
mod server;
mod timeout;

#[cfg(test)]
mod tests;

pub use channel::{Channel, channel};
pub use client::{ServiceCredential, ServiceKey, ServiceKeyError};
pub use server::{GrpcServer, MESSAGE_LIMIT};
