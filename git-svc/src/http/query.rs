//! Query strings as bytes, because paths and refs need not be UTF-8.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Encodes everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the percent-decoded value of `name`; `None` if it is absent or badly encoded. `+` is not
/// a space.
pub(super) fn value(query: &str, name: &str) -> Option<Vec<u8>> {
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    decode(found)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let is_escape = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_escape).then(|| percent_decode_str(text).collect())
}

/// Percent-encodes everything but letters, digits and `-._~`, for use in a header.
pub(super) fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_named_value_is_found() {
        assert_eq!(value("a=1&path=x%2Fy%ff", "path").unwrap(), b"x/y\xff");
        assert_eq!(value("path=a+b", "path").unwrap(), b"a+b");
        assert_eq!(encode(b"a-._~+/\xff"), "a-._~%2B%2F%FF");
        for wrong in ["", "pathx=1", "path=%", "path=%2", "path=%zz", "path=%+1"] {
            assert_eq!(value(wrong, "path"), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_decodes(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in ".{0,40}") {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
            decode(&text);
        }
    }
}
