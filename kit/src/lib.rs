//! Common base of all Ferrite services: configuration blocks, the database handle, lifecycle, telemetry, the gRPC server and channel,
//! authentication, and the outbox.
//!
//! Not here: tables, routes and rules of a single service.
//!
//! The modules form a strict order. A module uses only modules below it in this list (modules for tests excepted), and an item has one
//! public path.
//!
//! 1. [`credentials`]: keys of a process, and the authentication built from them
//! 2. [`sealing`]: secrets in databases under the key of an installation
//! 3. [`startup`]: opening the database and the listeners of a process
//! 4. [`server`]: HTTP and gRPC servers, probes
//! 5. [`outbox`]: events between services
//! 6. [`idempotency`]: writes that are safe to repeat
//! 7. [`auth`]: authentication and authorization of a request
//! 8. [`grpc`]: the gRPC client channel
//! 9. [`rate_limit`]: counts of events per key and time window
//! 10. [`redis`]: the Redis client
//! 11. [`service_key`]: the keys of roles, by which processes prove themselves to each other
//! 12. [`db`]: the database handle
//! 13. [`telemetry`]: logs, traces, metrics
//! 14. [`config`]: groups of settings
//! 15. [`net`]: addresses, listeners and streams
//! 16. [`tls`]: certificates and keys from files
//! 17. [`page`]: pages of lists
//! 18. [`headers`]: headers of requests
//! 19. [`text`]: characters that names and titles must not hold
//! 20. [`id_or_name`]: references by id or by name
//! 21. [`Lifecycle`], [`contain_panic`], [`Secret`], [`Clock`]

pub mod auth;
mod clock;
pub mod config;
pub mod credentials;
pub mod db;
pub mod grpc;
pub mod headers;
pub mod id_or_name;
pub mod idempotency;
mod lifecycle;
pub mod net;
pub mod outbox;
pub mod page;
mod panic;
pub mod rate_limit;
pub mod redis;
pub mod sealing;
mod secret;
pub mod server;
pub mod service_key;
pub mod startup;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;
pub mod text;
pub mod tls;
pub mod write_limit;
pub mod writer;

pub use clock::{Clock, micros, timestamp};
pub use lifecycle::Lifecycle;
pub use panic::{contain_panic, panic_text};
pub use secret::{Secret, SecretFileError};
