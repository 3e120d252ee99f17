//! Request headers: single values, entity tags, and detection of gRPC.

use http::header::{AsHeaderName, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// A header with several values where only one is allowed. Proxies disagree on which of them
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedHeader;

/// Returns the value of a header, if any.
///
/// # Errors
/// [`RepeatedHeader`] if it has several values.
pub fn single_header(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<&HeaderValue>, RepeatedHeader> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() { Err(RepeatedHeader) } else { Ok(value) }
}

/// Whether the content type is that of gRPC.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether `If-None-Match` contains an entity tag, by weak comparison (RFC 9110, section 13.1.2).
#[must_use]
pub fn matches_etag<'a>(if_none_match: impl IntoIterator<Item = &'a HeaderValue>, etag: &str) -> bool {
    let lists = if_none_match.into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use http::header::IF_NONE_MATCH;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (IF_NONE_MATCH, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_header_with_two_values_has_no_single_one() {
        let single = |values| single_header(&headers(values), "if-none-match").map(Option::<&HeaderValue>::cloned);
        assert_eq!(single(&[]), Ok(None));
        assert_eq!(single(&["a"]), Ok(Some(HeaderValue::from_static("a"))));
        assert_eq!(single(&["a", "a"]), Err(RepeatedHeader));
    }

    #[test]
    fn a_tag_matches_itself_in_all_lists_and_weakly() {
        for (values, expected) in [
            (&["\"a\""][..], true),
            (&["W/\"a\""], true),
            (&["\"b\", \"a\""], true),
            (&["\"b\"", "\"c\",\"a\""], true),
            (&["*"], true),
            (&[], false),
            (&[""], false),
            (&["\"b\""], false),
            (&["a"], false),
            (&["W/W/\"a\""], false),
        ] {
            assert_eq!(matches_etag(headers(values).get_all(IF_NONE_MATCH), "\"a\""), expected, "{values:?}");
        }
    }
}
