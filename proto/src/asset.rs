//! HTTP headers that git-svc sends to the gateway about a file of a release that it stored.

/// Header with the number of bytes.
pub const FILE_SIZE_HEADER: &str = "ferrite-file-size";
/// Header with the SHA-256 of the content, 64 hexadecimal digits.
pub const FILE_SHA256_HEADER: &str = "ferrite-file-sha256";
