//! The contracts between Ferrite's processes: generated messages, clients and servers, the table of error kinds, ids, and grants.
//!
//! Not here: databases, sockets and HTTP. This is the only crate about a service that other services depend on.

#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod asset;
mod call;
pub mod callers;
pub mod error;
pub mod git_transport;
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

pub use permission::Permission;
pub use rule::{Capacity, RequiredRole, Rule, Unit};
pub use scope::{Scope, Scopes, UnknownScope};
pub use service_role::ServiceRole;
use sha2::{Digest, Sha256};

/// The compiled contracts, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
/// The same with their comments, from which the API's document is made.
pub const DOCUMENTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/documented.bin"));

/// Bytes of a text in an event, of an issue, a comment or a release. Texts may have 1 MiB, and a delivery holds many events.
pub const MAX_FACT_TEXT_BYTES: usize = 64 * 1024;

/// Returns SHA-256 of as much of a text as an event has, by which services find out whether a text was changed after it was told.
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

            /// The package by its full path, by which messages of other packages name its types.
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
