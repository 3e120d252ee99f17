//! What tests of this service stand on: both databases, and the service behind a real socket.

mod caller;
mod databases;
mod service;

pub(crate) use caller::{Caller, REPOSITORY};
pub(crate) use databases::{on_both, on_both_stores};
pub(crate) use service::Service;

/// The reason a status of ours carries.
pub(crate) fn reason(status: &tonic::Status) -> String {
    ferrite_proto::error::reason(status).unwrap_or_else(|| panic!("not one of ours: {status:?}"))
}
