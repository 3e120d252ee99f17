use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// A response whose head is complete. Redirects are responses like others.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers, as received.
    pub headers: HeaderMap,
    /// The first bytes of the body, as received: not decompressed.
    pub body: Bytes,
    /// Number of bytes of the body that were read, with those that were not kept.
    pub body_read_bytes: usize,
    /// The reason for which reading stopped.
    pub body_end: BodyEnd,
}

impl Response {
    /// Returns whether the receiver sent more of the body than was kept.
    #[must_use]
    pub fn is_body_cut(&self) -> bool {
        self.body_end != BodyEnd::Complete || self.body.len() < self.body_read_bytes
    }
}

/// The reason for which reading of a body stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// All of it was read.
    Complete,
    /// The limit of bytes was reached.
    Limit,
    /// The deadline passed.
    TimedOut,
    /// The connection broke, or the framing is not HTTP.
    Broken,
}
