//! Names of the metadata that Ferrite's processes exchange. Clients' own headers of these names are never forwarded.

/// A personal access token, as `Bearer <token>`.
pub const AUTHORIZATION: &str = "authorization";
/// A signed grant for one repository (see [`crate::grant`]).
pub const GRANT: &str = "ferrite-grant";
/// A short-lived proof that the caller is one of Ferrite's own processes.
pub const SERVICE: &str = "ferrite-service";
/// Where a client's request came from, as the gateway saw it: an address, or the network of one. Counts only from our own processes.
pub const CLIENT: &str = "ferrite-client";
/// Makes a write safe to repeat: same key and request, same answer.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// On the plain HTTP bodies between processes: the reason of a failure, as `ErrorInfo` has it on gRPC.
pub const REASON: &str = "ferrite-reason";
/// The id under which one client request appears in all logs.
pub const REQUEST_ID: &str = "x-request-id";
