//! What tests stand on: a database of each kind, callers with grants, and the keys and servers of a small site.
//!
//! Compiled for the tests of this crate, and with the feature `testing` for those of the services; never into the shipped program.

mod caller;
mod databases;
mod program;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod site;
#[cfg(test)]
mod tables;

pub use caller::{Caller, REPOSITORY, public_key_pem};
pub use databases::{TestDb, on_each, on_each_schema, on_each_url, setting};
pub use program::script;
#[cfg(test)]
pub(crate) use redis::Redis;
#[cfg(test)]
pub(crate) use site::{Site, eventually};
#[cfg(test)]
pub(crate) use tables::{migrations, service_tables};

/// The reason that a status of ours carries.
///
/// # Panics
/// When it carries none.
#[must_use]
pub fn reason(status: &tonic::Status) -> String {
    ferrite_proto::error::reason(status).unwrap_or_else(|| panic!("not one of ours: {status:?}"))
}
