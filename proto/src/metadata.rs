//! Names of the metadata that Ferrite's processes exchange. The gateway never forwards headers of these names from clients.

/// A personal access token, as `Bearer <token>`.
pub const AUTHORIZATION: &str = "authorization";
/// A signed grant for one operation (see [`crate::grant`]).
pub const GRANT: &str = "ferrite-grant";
/// A service token: a short-lived JWT that proves that the caller is one of Ferrite's own processes.
pub const SERVICE: &str = "ferrite-service";
/// IP address of a client, or its network, as the gateway sees it. Ignored unless the caller is one of Ferrite's own processes.
pub const CLIENT: &str = "ferrite-client";
/// Name of the git store that a request is for. A git-svc refuses a request for another store than its own.
pub const STORE: &str = "ferrite-store";
/// Key that makes a write safe to repeat: the same key and request get the same response.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Asks a read for the version of its resource, and in its response the version. A read that has none to tell leaves it out.
pub const VERSION: &str = "x-ferrite-version";
/// What must be true of the resource of a write when it is done: `exists`, `absent`, `version=` and what its [`VERSION`] may be, with commas
/// in between, or `never`.
pub const PRECONDITION: &str = "x-ferrite-precondition";
/// Reason of a failure on plain HTTP between processes, the counterpart of `ErrorInfo.reason` on gRPC.
pub const REASON: &str = "ferrite-reason";
/// Id of a client's request in the logs of all processes.
pub const REQUEST_ID: &str = "x-request-id";
/// Longest [`REQUEST_ID`], in bytes. A longer one is not used.
pub const MAX_REQUEST_ID_BYTES: usize = 128;
