//! Conditions of writes: `If-Match` and `If-None-Match` (RFC 9110, section 13.1). `etag` handles
//! `If-None-Match` of reads.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};

use super::error::FieldError;

/// The condition of `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// The resource exists.
    Any,
    /// The resource has one of these strong tags, including their quotes. Weak tags never match and
    /// are dropped.
    Tags(Vec<Vec<u8>>),
}

impl IfMatch {
    /// Parses the condition of a request, if it has one.
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

    /// Whether a resource with this tag meets the condition, by the strong comparison of RFC 9110,
    /// section 8.8.3.2.
    pub(crate) fn matches(&self, etag: &HeaderValue) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag == etag.as_bytes()),
        }
    }
}

/// The condition of `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfNoneMatch {
    /// The resource does not exist.
    Any,
    /// The resource has none of these tags, including their quotes but without `W/`.
    Tags(Vec<Vec<u8>>),
}

impl IfNoneMatch {
    /// Parses the condition of a request, if it has one. A star among tags counts as a star, as for
    /// reads: a client that sends one does not want to replace anything.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, FieldError> {
        let lists: Vec<_> = headers.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes).collect();
        if lists.is_empty() {
            return Ok(None);
        }
        let Some(items) = items(&lists) else {
            return Err(FieldError::new("If-None-Match", "invalid", "must be `*` or entity tags in quotes"));
        };
        let tags: Option<Vec<_>> = items.into_iter().map(Item::tag).collect();
        Ok(Some(tags.map_or(Self::Any, Self::Tags)))
    }

    /// Whether a resource with this tag fails the condition, by the weak comparison of RFC 9110,
    /// section 8.8.3.2.
    pub(crate) fn names(&self, etag: &HeaderValue) -> bool {
        let etag = etag.as_bytes();
        let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item<'a> {
    Star,
    Strong(&'a [u8]),
    Weak(&'a [u8]),
}

impl Item<'_> {
    /// Returns the tag including its quotes; `None` for a star.
    fn tag(self) -> Option<Vec<u8>> {
        match self {
            Self::Star => None,
            Self::Strong(tag) | Self::Weak(tag) => Some(tag.to_vec()),
        }
    }
}

/// Returns the items of all lists; `None` if one is malformed, or there are no items.
fn items<'a>(lists: &[&'a [u8]]) -> Option<Vec<Item<'a>>> {
    let mut items = Vec::new();
    for list in lists {
        let (mut rest, mut is_separated) = (*list, true);
        loop {
            match rest {
                [] => break,
                [b' ' | b'\t', after @ ..] => rest = after,
                [b',', after @ ..] => (rest, is_separated) = (after, true),
                _ if !is_separated => return None,
                _ => {
                    let (item, after) = first_item(rest)?;
                    items.push(item);
                    (rest, is_separated) = (after, false);
                }
            }
        }
    }
    (!items.is_empty()).then_some(items)
}

/// Returns the strong tags of all lists; `None` if one is malformed, or there are no tags.
fn strong_tags(lists: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let items = items(lists)?;
    if items.contains(&Item::Star) {
        return None;
    }
    Some(items.into_iter().filter(|item| matches!(item, Item::Strong(_))).filter_map(Item::tag).collect())
}

/// Splits off the first item of a list.
fn first_item(list: &[u8]) -> Option<(Item<'_>, &[u8])> {
    if let Some(rest) = list.strip_prefix(b"*") {
        return Some((Item::Star, rest));
    }
    let (is_weak, quoted) = match list.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, list),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let length = inner.iter().position(|byte| *byte == b'"')?;
    let is_sane = |byte: &u8| matches!(byte, 0x21..=0x7e | 0x80..);
    let (tag, rest) = quoted.split_at(length + 2);
    let item = if is_weak { Item::Weak(tag) } else { Item::Strong(tag) };
    inner[..length].iter().all(is_sane).then_some((item, rest))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn headers_of(name: &'static str, values: &[&str]) -> HeaderMap {
        let value = |value: &&str| HeaderValue::from_bytes(value.as_bytes()).unwrap();
        values.iter().map(|one| (HeaderName::from_static(name), value(one))).collect()
    }

    fn headers(values: &[&str]) -> HeaderMap {
        headers_of("if-match", values)
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
    fn a_star_among_tags_is_one_and_weak_tags_are_as_good_as_strong_ones() {
        let of = |values: &[&str]| IfNoneMatch::of(&headers_of("if-none-match", values));
        let tags = |tags: &[&str]| Some(IfNoneMatch::Tags(tags.iter().map(|tag| tag.as_bytes().to_vec()).collect()));
        for (values, expected) in [
            (&[][..], None),
            (&["*"], Some(IfNoneMatch::Any)),
            (&[" * "], Some(IfNoneMatch::Any)),
            (&["\"a\", *"], Some(IfNoneMatch::Any)),
            (&["\"a\"", "*"], Some(IfNoneMatch::Any)),
            (&["\"*\""], tags(&["\"*\""])),
            (&["\"a,*,b\""], tags(&["\"a,*,b\""])),
            (&["W/\"a\", \"b\"", "\"c\""], tags(&["\"a\"", "\"b\"", "\"c\""])),
        ] {
            assert_eq!(of(values).unwrap(), expected, "{values:?}");
        }
        for values in [&[""][..], &[","], &["a"], &["\"a"], &["**"], &["* \"a\""], &["\"a\"", "x"]] {
            let mistake = of(values).expect_err("it is malformed");
            assert_eq!((mistake.field.as_str(), &*mistake.code), ("If-None-Match", "invalid"), "{values:?}");
        }
        let names =
            |value: &str, tag: &'static str| of(&[value]).unwrap().unwrap().names(&HeaderValue::from_static(tag));
        for value in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(names(value, "\"a\"") && names(value, "W/\"a\""), "{value}");
        }
        assert!(!names("\"b\"", "\"a\"") && !names("\"A\"", "\"a\""));
    }
}
