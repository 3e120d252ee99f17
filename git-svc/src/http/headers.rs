//! Reads the path and headers of requests, and sets headers of responses.

use ferrite_proto::git_transport::{GIT_PROTOCOL_HEADER, GitProtocol};
use http::{HeaderMap, HeaderValue, header};

use crate::types::{error::GitError, rpc_error::RpcError};

/// Parses the repository id in the path.
pub(super) fn repository(id: &str) -> Result<i64, RpcError> {
    id.parse().map_err(|_| GitError::RepositoryNotFound.into())
}

/// Returns the `Git-Protocol` that the client asks for.
pub(super) fn git_protocol(headers: &HeaderMap) -> Option<GitProtocol> {
    GitProtocol::parse(headers.get(GIT_PROTOCOL_HEADER)?.as_bytes())
}

/// Sets a header to a value of plain ASCII, which is always valid.
pub(super) fn insert_header(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
