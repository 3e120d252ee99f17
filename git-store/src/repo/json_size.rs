//! Sizes of texts in responses in JSON, so that a response that would be too large is not begun. The gateway, which writes the responses,
//! escapes what HTML and JavaScript interpret.

/// Returns the bytes of a text within a string. Those of invalid UTF-8 count as the character that replaces it.
#[must_use]
pub fn json_bytes(text: &[u8]) -> usize {
    text.utf8_chunks().map(|chunk| escaped(chunk.valid()) + 3 * usize::from(!chunk.invalid().is_empty())).sum()
}

fn escaped(text: &str) -> usize {
    let bytes = |letter: char| match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    };
    text.chars().map(bytes).sum()
}

/// Returns the bytes of a text within a URL, where other than letters, digits and a few marks take three.
#[must_use]
pub fn url_bytes(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    let plain = text.iter().filter(|byte| is_plain(byte)).count();
    plain + 3 * (text.len() - plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_characters_count_as_they_are_written() {
        assert_eq!((json_bytes(b"abc"), json_bytes("\u{e9}\u{20ac}".as_bytes())), (3, 5));
        assert_eq!((json_bytes(b"<&>"), json_bytes(b"\"\\\n"), json_bytes(b"\x01\0")), (18, 6, 12));
        assert_eq!((json_bytes(b"a\xffb"), json_bytes("\u{2028}".as_bytes())), (5, 6));
        assert_eq!((url_bytes(b"a/b-c"), url_bytes(b"a b%")), (5, 8));
    }
}
