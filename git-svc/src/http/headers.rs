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

/// Returns whether `If-None-Match` matches the entity tag: the client has this file.
pub(super) fn matches_etag(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_condition_is_understood() {
        for (value, known) in
            [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false), ("a", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            assert_eq!(matches_etag(&headers, "\"a\""), known, "{value}");
        }
    }
}
