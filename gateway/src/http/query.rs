//! Query parameters, decoded as a form is: `%XX` and `+`. Not here: pages of lists ([`super::page`]).

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;

use super::path::decode;

/// The path and query of a request, as the client wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(super) path: String,
    query: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let OriginalUri(uri) = OriginalUri::from_request_parts(parts, state).await?;
        Ok(Self::new(uri.path(), uri.query().unwrap_or_default()))
    }
}

impl Query {
    pub(crate) fn new(path: &str, query: &str) -> Self {
        Self { path: path.to_owned(), query: query.to_owned() }
    }

    /// Returns the parameters as they were written, `key=value` each.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter(|pair| !pair.is_empty())
    }

    /// Returns the first value of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.pairs().find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            is_named(key, name).then(|| decode(&value.replace('+', " ")))
        })
    }

    /// Returns the first value of a parameter as text. Invalid UTF-8 becomes U+FFFD.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the first value of a parameter as a search text, empty when absent.
    pub(crate) fn filter(&self, name: &str) -> String {
        // No stored text has a NUL, and databases refuse parameters with one.
        self.text(name).unwrap_or_default().replace('\0', "\u{fffd}")
    }

    /// Returns the first value of a parameter as a whole number, clamped to 64 bits; `None` for what is not a number.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
    }
}

/// Returns whether `key`, as it stands in a query, is the parameter `name`.
pub(super) fn is_named(key: &str, name: &str) -> bool {
    decode(&key.replace('+', " ")) == name.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = Query::new("/", "q=a+b%2Bc&q=z&%72ef=%ff&empty");
        assert_eq!(query.text("q").as_deref(), Some("a b+c"));
        assert_eq!(query.bytes("ref"), Some(vec![0xff]));
        assert_eq!(query.bytes("empty"), Some(Vec::new()));
        assert_eq!(query.bytes("other"), None);
    }
}
