//! The conditions of requests that write: `If-Match`, and `If-None-Match: *` (RFC 9110, section 13.1).
//!
//! Not here: `If-None-Match` of reads, which is in `etag`, and the resource that a condition is about.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};

use super::error::FieldError;

/// The condition of `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// The resource exists.
    Any,
    /// The resource has one of these strong tags, which are in their quotes. Weak ones match nothing and are left out.
    Tags(Vec<Vec<u8>>),
}

impl IfMatch {
    /// Returns the condition of a request, if it has one.
    ///
    /// # Errors
    /// What is wrong with a malformed header.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, FieldError> {
        let values: Vec<_> = headers.get_all(IF_MATCH).iter().map(|value| value.as_bytes().trim_ascii()).collect();
        match values.as_slice() {
            [] => Ok(None),
            [b"*"] => Ok(Some(Self::Any)),
            lists => match strong_tags(lists) {
                Some(tags) => Ok(Some(Self::Tags(tags))),
                None => Err(FieldError::new("If-Match", "invalid", "must be `*` or entity tags in quotes")),
            },
        }
    }

    /// Returns whether it is true of a resource with this tag, by the strong comparison of RFC 9110, section 8.8.3.2.
    pub(crate) fn matches(&self, etag: &HeaderValue) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag == etag.as_bytes()),
        }
    }
}

/// Returns whether a request has `If-None-Match: *`, by which a write creates its resource and replaces none. A star among tags counts, as for
/// reads: a client that sends one wants nothing replaced.
pub(crate) fn is_create_only(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
    lists.flat_map(|list| list.split(|byte| *byte == b',')).any(|item| item.trim_ascii() == b"*")
}

/// Returns the strong tags of some lists of tags; `None` if one is malformed, or there is no tag at all.
fn strong_tags(lists: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut strong = Vec::new();
    let mut is_empty = true;
    for list in lists {
        let (mut rest, mut is_separated) = (*list, true);
        loop {
            match rest {
                [] => break,
                [b' ' | b'\t', after @ ..] => rest = after,
                [b',', after @ ..] => (rest, is_separated) = (after, true),
                _ if !is_separated => return None,
                _ => {
                    let (is_weak, tag, after) = first_tag(rest)?;
                    if !is_weak {
                        strong.push(tag.to_vec());
                    }
                    (rest, is_separated, is_empty) = (after, false, false);
                }
            }
        }
    }
    (!is_empty).then_some(strong)
}

/// Splits off the tag at the beginning of a list. Returns whether it is weak, the tag in its quotes, and the rest.
fn first_tag(list: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let (is_weak, quoted) = match list.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, list),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let length = inner.iter().position(|byte| *byte == b'"')?;
    let is_sane = |byte: &u8| matches!(byte, 0x21..=0x7e | 0x80..);
    let (tag, rest) = quoted.split_at(length + 2);
    inner[..length].iter().all(is_sane).then_some((is_weak, tag, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (IF_MATCH, HeaderValue::from_bytes(value.as_bytes()).unwrap())).collect()
    }

    #[test]
    fn a_condition_is_a_star_or_lists_of_tags() {
        let tags = |tags: &[&str]| Some(IfMatch::Tags(tags.iter().map(|tag| tag.as_bytes().to_vec()).collect()));
        for (values, expected) in [
            (&[][..], None),
            (&["*"], Some(IfMatch::Any)),
            (&[" * "], Some(IfMatch::Any)),
            (&["\"a\""], tags(&["\"a\""])),
            (&["\"a\", \"b\""], tags(&["\"a\"", "\"b\""])),
            (&["\"a\",,\"b\" ,"], tags(&["\"a\"", "\"b\""])),
            (&["\"a\"", "\"b\""], tags(&["\"a\"", "\"b\""])),
            (&["\"a,b\""], tags(&["\"a,b\""])),
            (&["\"\""], tags(&["\"\""])),
            (&["\"\u{e4}\""], tags(&["\"\u{e4}\""])),
            (&["W/\"a\""], tags(&[])),
            (&["W/\"a\", \"b\""], tags(&["\"b\""])),
        ] {
            assert_eq!(IfMatch::of(&headers(values)).unwrap(), expected, "{values:?}");
        }
    }

    #[test]
    fn a_malformed_condition_names_its_header() {
        for values in [
            &[""][..],
            &[","],
            &["a"],
            &["\"a"],
            &["a\""],
            &["'a'"],
            &["w/\"a\""],
            &["W/a"],
            &["\"a\" \"b\""],
            &["\"a\"\"b\""],
            &["\"a b\""],
            &["*, \"a\""],
            &["*", "*"],
            &["**"],
        ] {
            let error = IfMatch::of(&headers(values)).expect_err("it is malformed");
            assert_eq!((error.field.as_str(), &*error.code), ("If-Match", "invalid"), "{values:?}");
        }
    }

    #[test]
    fn tags_are_compared_strongly() {
        let matches = |value: &str, tag: &'static str| {
            let condition = IfMatch::of(&headers(&[value])).unwrap().unwrap();
            condition.matches(&HeaderValue::from_static(tag))
        };
        for (value, expected) in [
            ("\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("W/\"a\"", false),
            ("\"A\"", false),
        ] {
            assert_eq!(matches(value, "\"a\""), expected, "{value}");
        }
        assert!(!matches("\"a\"", "W/\"a\""), "a weak tag of the resource");
    }

    #[test]
    fn a_star_alone_is_create_only() {
        let of = |value| HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
        assert!(is_create_only(&of("*")) && is_create_only(&of(" * ")) && is_create_only(&of("\"a\", *")));
        assert!(!is_create_only(&of("\"*\"")) && !is_create_only(&of("\"a\"")) && !is_create_only(&HeaderMap::new()));
    }
}
