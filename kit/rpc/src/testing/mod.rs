//! Test support: callers with grants, keys of an installation, stand-ins for services, and a Redis.
//!
//! Compiled for tests only: with the feature `testing` for those of other crates.

mod caller;
mod fake;
mod redis;
mod service_keys;

use ferrite_proto::error::{Kind, ServiceError, to_status};

pub use caller::{REPOSITORY, TestCaller, public_key_pem, signed};
pub use fake::{Fake, FakeAccessService, FakeAccountService, FakeStorageService};
pub use redis::Redis;
pub use service_keys::ServiceKeys;

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
