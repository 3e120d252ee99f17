//! HTTP headers that git-svc sends to the gateway about a stored release file.

/// Size in bytes.
pub const FILE_SIZE_HEADER: &str = "ferrite-file-size";
/// SHA-256 of the content, 64 hexadecimal digits.
pub const FILE_SHA256_HEADER: &str = "ferrite-file-sha256";
