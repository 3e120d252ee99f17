//! Decodes names and messages of commits and tags, and measures texts in responses.
//!
//! The header `encoding` labels the encoding; without one, or with an unknown one, it is UTF-8.
//! Invalid bytes become U+FFFD. As in git, a NUL ends the text.
//!
//! Sizes are those in JSON, so that we do not start a response that is too large. The gateway
//! escapes what HTML and JavaScript interpret.

use encoding_rs::{CoderResult, Encoding, UTF_8};

/// Extra room for a decoder, so that it stops after the limit and not before it.
const SLACK_BYTES: usize = 16;

/// Decodes up to `max_bytes` of UTF-8 in whole characters. Returns whether there was more.
pub fn decode(bytes: &[u8], label: Option<&[u8]>, max_bytes: usize) -> (String, bool) {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    let encoding = label.and_then(Encoding::for_label_no_replacement).unwrap_or(UTF_8);
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let longest = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(usize::MAX);
    let mut text = String::with_capacity(longest.min(max_bytes.saturating_add(SLACK_BYTES)));
    let (result, ..) = decoder.decode_to_string(bytes, &mut text, true);
    let is_longer = truncate(&mut text, max_bytes) || result == CoderResult::OutputFull;
    text.shrink_to_fit();
    (text, is_longer || end.is_some())
}

/// Truncates a text without splitting a character. Returns whether it was longer.
pub fn truncate(text: &mut String, max_bytes: usize) -> bool {
    let is_longer = text.len() > max_bytes;
    if is_longer {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.shrink_to_fit();
    }
    is_longer
}

/// Returns the size of a text in a JSON string, with invalid UTF-8 replaced.
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

/// Returns the size of a text in a URL, where most punctuation and non-ASCII is encoded.
#[must_use]
pub fn url_bytes(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    let plain = text.iter().filter(|byte| is_plain(byte)).count();
    plain + 3 * (text.len() - plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8], label: &str) -> String {
        let (text, is_longer) = decode(bytes, Some(label.as_bytes()), 1000);
        assert!(!is_longer);
        text
    }

    #[test]
    fn a_text_is_decoded_by_its_label() {
        for (bytes, label, expected) in [
            (&b"M\xfcller"[..], "ISO-8859-1", "Müller"),
            (b"M\xfcller", "latin1", "Müller"),
            (b"\x80 \xa4", "ISO8859-15", "\u{80} €"),
            (b"\xcf\xf0\xe8\xe2\xe5\xf2", "cp1251", "Привет"),
            (b"\xf0\xd2\xc9\xd7\xc5\xd4", "KOI8-R", "Привет"),
            (b"\x93\xfa\x96{", "Shift_JIS", "日本"),
            (b"\xc6\xfc\xcb\xdc", "EUC-JP", "日本"),
            (b"\x1b$BF|K\\\x1b(B", "ISO-2022-JP", "日本"),
            (b"\xd6\xd0\xce\xc4", "GB18030", "中文"),
            (b"\xa4\xa4\xa4\xe5", "Big5", "中文"),
            (b"\x2d\x4e\x87\x65", "UTF-16LE", "中文"),
            ("é\u{feff}".as_bytes(), "UTF-8", "é\u{feff}"),
            ("\u{feff}é".as_bytes(), "utf8", "\u{feff}é"),
        ] {
            assert_eq!(whole(bytes, label), expected, "{label}");
        }
    }

    #[test]
    fn what_nobody_knows_is_utf_8() {
        for label in ["", "klingon", "iso-2022-kr", "UTF-8\0", "\u{fffd}"] {
            assert_eq!(whole(b"a\xff\xc3\xa9\xe4\xb8", label), "a\u{fffd}é\u{fffd}", "{label}");
        }
        assert_eq!(decode(b"a\xff\0b", None, 100), ("a\u{fffd}".to_owned(), true));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (bytes, label, max, expected) in [
            (&b"abc"[..], "utf-8", 3, ("abc", false)),
            (b"abc", "utf-8", 2, ("ab", true)),
            (b"abc", "utf-8", 0, ("", true)),
            ("ab€".as_bytes(), "utf-8", 4, ("ab", true)),
            (b"\xff\xff", "utf-8", 5, ("\u{fffd}", true)),
            (b"ab\x80\x80", "windows-1252", 5, ("ab€", true)),
            (&[b'a'; 40], "utf-8", 39, (&"a".repeat(39), true)),
        ] {
            let (text, is_longer) = decode(bytes, Some(label.as_bytes()), max);
            assert_eq!((text.as_str(), is_longer), expected, "{label} {max}");
        }
    }

    #[test]
    fn escaped_characters_count_as_they_are_written() {
        assert_eq!((json_bytes(b"abc"), json_bytes("\u{e9}\u{20ac}".as_bytes())), (3, 5));
        assert_eq!((json_bytes(b"<&>"), json_bytes(b"\"\\\n"), json_bytes(b"\x01\0")), (18, 6, 12));
        assert_eq!((json_bytes(b"a\xffb"), json_bytes("\u{2028}".as_bytes())), (5, 6));
        assert_eq!((url_bytes(b"a/b-c"), url_bytes(b"a b%")), (5, 8));
    }

    proptest! {
        #[test]
        fn utf_8_is_as_rust_reads_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), max in 0_usize..300) {
            let mut parts = bytes.split(|byte| *byte == 0);
            let mut expected = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            let is_longer = truncate(&mut expected, max) || parts.next().is_some();
            prop_assert_eq!(decode(&bytes, None, max), (expected, is_longer));
        }

        #[test]
        fn any_text_is_within_its_limit(
            bytes in proptest::collection::vec(1_u8.., 0..200),
            max in 0_usize..300,
            label in prop_oneof![Just("gb18030"), Just("iso-2022-jp"), Just("utf-16"), Just("big5"), Just("euc-kr"), Just("koi8-u")],
        ) {
            let (text, is_longer) = decode(&bytes, Some(label.as_bytes()), max);
            prop_assert!(text.len() <= max && !text.contains('\0'));
            let (whole, _) = decode(&bytes, Some(label.as_bytes()), usize::MAX);
            prop_assert_eq!(is_longer, whole.len() > max);
            prop_assert!(whole.starts_with(&text) && whole.len() <= 3 * bytes.len() + 8);
        }
    }
}
