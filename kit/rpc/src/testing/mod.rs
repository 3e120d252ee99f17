//! Test support: callers with grants, keys of an installation, fake services, and a Redis. Other
//! crates get it with the feature `testing`.

mod caller;
mod fake;
mod redis;
mod service_keys;

use ferrite_proto::error::{Kind, ServiceError, to_status};

pub use caller::{REPOSITORY, TestCaller, public_key_pem, signed};
pub use fake::{Fake, FakeAccessService, FakeAccountService, FakeLineService, FakeMergeService, FakeStorageService};
pub use redis::Redis;
pub use service_keys::ServiceKeys;

/// Returns the reason in a status of a Ferrite service.
///
/// # Panics
/// If the status has none.
#[must_use]
pub fn reason(status: &tonic::Status) -> String {
    ferrite_proto::error::reason(status).unwrap_or_else(|| panic!("not one of ours: {status:?}"))
}

/// Returns the status of an error with this kind and reason.
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
