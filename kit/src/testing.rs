//! Test support: databases of each kind, callers with grants, and servers with the keys of an installation.
//!
//! Compiled for the tests of this crate, and with the feature `testing` for the tests of the services; never into the shipped program.

mod caller;
mod databases;
#[cfg(test)]
mod env;
mod fake;
mod program;
#[cfg(test)]
mod redis;
mod service;
mod service_keys;
#[cfg(test)]
mod tables;
mod wait;

use ferrite_proto::error::{Kind, ServiceError, to_status};

pub use caller::{REPOSITORY, TestCaller, public_key_pem, signed};
pub use databases::{TestDb, on_each, on_each_schema, on_each_url, setting};
#[cfg(test)]
pub(crate) use env::{ROLE, TestEnv};
pub use fake::{Fake, FakeAccessService, FakeAccountService, FakeStorageService};
pub use program::script;
#[cfg(test)]
pub(crate) use redis::Redis;
pub use service::{TestService, serve_peers};
pub use service_keys::ServiceKeys;
#[cfg(test)]
pub(crate) use tables::{migrations, service_tables};
pub use wait::eventually;

/// Returns the reason of a status that a Ferrite service made.
///
/// # Panics
/// When the status has none.
#[must_use]
pub fn reason(status: &tonic::Status) -> String {
    ferrite_proto::error::reason(status).unwrap_or_else(|| panic!("not one of ours: {status:?}"))
}

/// Returns the status of an error of a Ferrite service, of a kind and with a reason.
#[must_use]
pub fn failure(kind: Kind, reason: &'static str) -> tonic::Status {
    to_status(&Failure(kind, reason))
}

#[derive(Debug, thiserror::Error)]
#[error("text of the service")]
struct Failure(Kind, &'static str);

impl ServiceError for Failure {
    fn classify(&self) -> (Kind, &'static str) {
        (self.0, self.1)
    }

    fn domain(&self) -> &'static str {
        "test"
    }
}
