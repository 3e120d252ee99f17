//! The contracts between Ferrite's processes: generated messages, clients and servers, error kinds,
//! ids, and grants. Services depend on each other only through this crate.

#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod asset;
mod call;
pub mod callers;
pub mod error;
pub mod git_transport;
mod gitea_scopes;
pub mod grant;
pub mod id;
pub mod jwt;
mod message;
pub mod metadata;
pub mod operation;
mod permission;
pub mod raw;
mod rule;
mod scope;
mod serve;
mod service_role;
pub mod session;
mod status_state;

pub use gitea_scopes::{GITEA_SCOPES, GiteaScope};
pub use permission::Permission;
pub use rule::{Capacity, RequiredRole, Rule, Unit};
pub use scope::{Scope, Scopes, UnknownScope};
pub use service_role::ServiceRole;
use sha2::{Digest, Sha256};

/// The compiled contracts, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
/// The same with comments, for the API reference.
pub const DOCUMENTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/documented.bin"));

/// Maximum size of a text in an event, such as an issue, comment or release. Texts can have 1 MiB,
/// and a delivery has many events.
pub const MAX_FACT_TEXT_BYTES: usize = 64 * 1024;
/// Shortest time between two syncs of a mirror: 10 minutes.
pub const MIN_MIRROR_INTERVAL_SECS: i64 = 600;
/// Longest time between two syncs of a mirror: 365 days.
pub const MAX_MIRROR_INTERVAL_SECS: i64 = 365 * 24 * 3600;

/// Returns the SHA-256 of the part of a text that an event has. Services compare it to see whether
/// a text changed after its event.
#[must_use]
pub fn text_digest(text: &str) -> [u8; 32] {
    Sha256::digest(&text[..text.floor_char_boundary(MAX_FACT_TEXT_BYTES)]).into()
}

macro_rules! generated {
    ($(#[$doc:meta])* $module:ident = $package:literal) => {
        $(#[$doc])*
        pub mod $module {
            #[expect(clippy::missing_errors_doc, reason = "generated code")]
            mod generated {
                tonic::include_proto!($package);
            }
            pub use generated::*;

            /// The package by its full path, which messages of other packages refer to.
            #[doc(hidden)]
            pub mod v1 {
                pub use super::generated::*;
            }
        }
    };
}

generated! {
    /// Events between services.
    events = "ferrite.events.v1"
}
generated! {
    /// The contract of git-svc.
    git = "ferrite.git.v1"
}
generated! {
    /// The contract of hook-svc.
    hook = "ferrite.hook.v1"
}
generated! {
    /// The contract of issue-svc.
    issue = "ferrite.issue.v1"
}
generated! {
    /// The contract of repo-svc.
    repo = "ferrite.repo.v1"
}

#[cfg(test)]
mod tests;
