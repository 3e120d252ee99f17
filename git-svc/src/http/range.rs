//! `Range` requests with a single byte range (RFC 9110). A list of ranges is answered with the
//! whole file, as HTTP allows.

use http::{HeaderMap, HeaderValue, Method, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteRange {
    /// From the first to the last byte, both included.
    Between(u64, u64),
    /// From a byte to the end.
    From(u64),
    /// This many bytes at the end.
    Last(u64),
}

/// Returns the requested range; `None` for the whole file, also if the method is not `GET` or
/// `If-Range` has another entity tag.
pub(super) fn requested_range(method: &Method, headers: &HeaderMap, etag: &str) -> Option<ByteRange> {
    let is_same = headers.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes());
    if *method != Method::GET || !is_same {
        return None;
    }
    headers.get(header::RANGE).and_then(range)
}

fn range(value: &HeaderValue) -> Option<ByteRange> {
    let text = value.to_str().ok()?;
    let (unit, text) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = text.trim().split_once('-')?;
    match (first, last) {
        ("", last) => Some(ByteRange::Last(number(last)?)),
        (first, "") => Some(ByteRange::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(ByteRange::Between(first, last))
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().unwrap_or(u64::MAX))
}

impl ByteRange {
    /// Returns start and end (exclusive) in a file of `size` bytes; `None` if no byte of the range
    /// is in it.
    pub(super) fn within(self, size: u64) -> Option<(u64, u64)> {
        let (start, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (start < end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Option<ByteRange> {
        range(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn one_range_is_understood_and_nothing_else() {
        assert_eq!(of("bytes=0-9"), Some(ByteRange::Between(0, 9)));
        assert_eq!(of("Bytes = 5-").unwrap(), ByteRange::From(5));
        assert_eq!(of("bytes=-3"), Some(ByteRange::Last(3)));
        for text in ["bytes=", "bytes=-", "bytes=9-1", "bytes=a-b", "bytes=+1-2", "lines=1-2", "bytes=0-1,3-4", "5-6"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_end_where_the_file_ends() {
        assert_eq!(ByteRange::Between(2, 99).within(10), Some((2, 10)));
        assert_eq!(ByteRange::Between(10, 99).within(10), None);
        assert_eq!(ByteRange::From(9).within(10), Some((9, 10)));
        assert_eq!(ByteRange::Last(99).within(10), Some((0, 10)));
        assert_eq!(ByteRange::Last(0).within(10), None);
        assert_eq!(of("bytes=0-99999999999999999999").unwrap().within(10), Some((0, 10)));
    }

    proptest! {
        #[test]
        fn no_range_leaves_the_file(text in "bytes=[0-9]{0,25}-[0-9]{0,25}", size in any::<u64>()) {
            if let Some((start, end)) = of(&text).and_then(|range| range.within(size)) {
                prop_assert!(start < end && end <= size);
            }
        }
    }
}
