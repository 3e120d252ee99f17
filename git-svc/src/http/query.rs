//! Query strings as bytes: paths and refs need not be UTF-8.

/// Returns the value of `name`, percent-decoded; `None` if it is absent or badly encoded. `+` is not a space.
pub(super) fn value(query: &str, name: &str) -> Option<Vec<u8>> {
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    decode(found.as_bytes())
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = digit(digits[0])? * 16 + digit(digits[1])?;
        out.push(u8::try_from(byte).ok()?);
        rest = tail;
    }
    Some(out)
}

/// Encodes bytes for a header: all but letters, digits and `-._~` are percent-encoded.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_named_value_is_found() {
        assert_eq!(value("a=1&path=x%2Fy%ff", "path").unwrap(), b"x/y\xff");
        assert_eq!(value("path=a+b", "path").unwrap(), b"a+b");
        for wrong in ["", "pathx=1", "path=%", "path=%2", "path=%zz", "path=%+1"] {
            assert_eq!(value(wrong, "path"), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_decodes(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in ".{0,40}") {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
            decode(text.as_bytes());
        }
    }
}
