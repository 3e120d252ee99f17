//! The base of every Ferrite process: settings, addresses, TLS, lifecycle, logs, metrics, and small
//! values.

#![warn(missing_docs, clippy::missing_errors_doc)]

mod clock;
pub mod config;
pub mod headers;
pub mod id_or_name;
mod lifecycle;
pub mod net;
pub mod page;
mod panic;
mod readiness;
pub mod sealing;
mod secret;
pub mod startup;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod tls;
pub mod version;
pub mod writer;

pub use clock::{Clock, micros, timestamp};
pub use lifecycle::Lifecycle;
pub use panic::{contain_panic, panic_text};
pub use readiness::watch_readiness;
pub use secret::{Secret, SecretFileError};
