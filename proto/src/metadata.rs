//! Names of the metadata between Ferrite's processes. The gateway never forwards client headers
//! with these names.

/// A personal access token, as `Bearer <token>`.
pub const AUTHORIZATION: &str = "authorization";
/// A signed grant for one operation (see [`crate::grant`]).
pub const GRANT: &str = "ferrite-grant";
/// A service token: a short-lived JWT that proves the role of the calling process.
pub const SERVICE: &str = "ferrite-service";
/// IP address or network of a client, as the gateway sees it. Ignored unless the caller is a
/// Ferrite process.
pub const CLIENT: &str = "ferrite-client";
/// The git store that a request is for. A git-svc rejects requests for another store.
pub const STORE: &str = "ferrite-store";
/// Makes a write safe to retry: the same key and request get the same response.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// In a request, asks a read for the version of its resource; in the response, the version. Absent
/// if the resource has none.
pub const VERSION: &str = "x-ferrite-version";
/// The precondition of a write on the current resource: `exists`, `absent`, `version=` with
/// comma-separated [`VERSION`]s, or `never`.
pub const PRECONDITION: &str = "x-ferrite-precondition";
/// Reason of an error over plain HTTP between processes, like `ErrorInfo.reason` in gRPC.
pub const REASON: &str = "ferrite-reason";
/// Id of a client's request in the logs of all processes.
pub const REQUEST_ID: &str = "x-request-id";
/// Maximum length of a [`REQUEST_ID`]. Longer ones are ignored.
pub const MAX_REQUEST_ID_BYTES: usize = 128;
