//! Requests: method, headers that cannot break out of the head, and limits.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::url::OutboundUrl;

const MAX_HEADERS: usize = 64;
const MAX_HEADER_VALUE_BYTES: usize = 8 * 1024;

/// Headers for framing and the connection, which only the client sets.
const CLIENT_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::EXPECT,
    header::TE,
    header::TRAILER,
];

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The target.
    pub url: &'a OutboundUrl,
    /// The method.
    pub method: Method,
    /// Headers in addition to the client's: `Host`, `Connection: close`, `Content-Length` of a
    /// body, and `Authorization` from the URL's user and password, unless given here.
    pub headers: Headers,
    /// The body; empty for none.
    pub body: Bytes,
    /// Limits on time and size.
    pub limits: Limits,
}

/// Limits of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for everything: resolution, connection, request and response.
    pub total: Duration,
    /// Response body bytes to read before the connection is closed.
    pub max_body_read_bytes: usize,
    /// Response body bytes to keep; the rest is read and dropped.
    pub max_body_kept_bytes: usize,
}

impl Default for Limits {
    /// Those of webhooks: 10 seconds, 1 MiB read, 64 KiB kept.
    fn default() -> Self {
        Self { total: Duration::from_secs(10), max_body_read_bytes: 1024 * 1024, max_body_kept_bytes: 64 * 1024 }
    }
}

/// Headers of a request, one value per name, without line breaks. `Debug` prints only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(HeaderMap);

/// Why a header cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderRefusal {
    /// The name is not a token.
    #[error("invalid header name")]
    Name,
    /// The value has a control character, such as a line break, or more than 8 KiB.
    #[error("invalid header value")]
    Value,
    /// The client sets this header.
    #[error("this header is set by the client")]
    Reserved,
    /// More than 64 headers.
    #[error("too many headers")]
    TooMany,
}

impl Headers {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a header, replacing one with the same name in any letter case. Requests write names
    /// like `X-Name-In-This-Form`.
    ///
    /// # Errors
    /// Why the header cannot be sent; the set is unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), HeaderRefusal> {
        let name: HeaderName = name.parse().map_err(|_| HeaderRefusal::Name)?;
        let is_hop = CLIENT_HEADERS.contains(&name) || name == "keep-alive" || name.as_str().starts_with("proxy-");
        if is_hop {
            return Err(HeaderRefusal::Reserved);
        }
        if value.len() > MAX_HEADER_VALUE_BYTES {
            return Err(HeaderRefusal::Value);
        }
        let value = HeaderValue::from_str(value).map_err(|_| HeaderRefusal::Value)?;
        if !self.0.contains_key(&name) && self.0.len() >= MAX_HEADERS {
            return Err(HeaderRefusal::TooMany);
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// Iterates over names, in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), std::str::from_utf8(value.as_bytes()).unwrap_or_default()))
    }

    pub(crate) fn into_map(self) -> HeaderMap {
        self.0
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys().map(HeaderName::as_str)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_hold_no_line_breaks_and_no_framing() {
        let mut headers = Headers::new();
        for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\u{7f}", "\r\n"] {
            assert_eq!(headers.set("X-Event", value), Err(HeaderRefusal::Value), "{value:?}");
        }
        for name in ["", "a b", "a:b", "a\r\nb", "a\n", "\u{e4}", "a\0"] {
            assert_eq!(headers.set(name, "x"), Err(HeaderRefusal::Name), "{name:?}");
        }
        for name in ["Host", "content-length", "TRANSFER-ENCODING", "connection", "Expect", "Proxy-Authorization"] {
            assert_eq!(headers.set(name, "x"), Err(HeaderRefusal::Reserved), "{name}");
        }
        assert_eq!(headers.set("X-Long", &"a".repeat(8193)), Err(HeaderRefusal::Value));
        assert_eq!(headers, Headers::new());
    }

    #[test]
    fn a_name_has_one_value_and_the_number_of_names_is_bounded() {
        let mut headers = Headers::new();
        headers.set("X-Event", "push").unwrap();
        headers.set("x-event", "caf\u{e9}\tx").unwrap();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-event", "caf\u{e9}\tx")]);
        for number in 1..64 {
            headers.set(&format!("X-{number}"), "").unwrap();
        }
        assert_eq!(headers.set("X-64", ""), Err(HeaderRefusal::TooMany));
        headers.set("X-Event", "secret").unwrap();
        assert!(!format!("{headers:?}").contains("secret"));
    }
}
