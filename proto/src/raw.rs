//! What gateway and git-svc say to each other about the bytes of a file, beside plain HTTP.

/// The header that carries a file's name, percent-encoded.
pub const FILE_NAME: &str = "ferrite-file-name";
/// The header that tells with a range whether the whole file is text (`true` or `false`): its beginning may not be in there.
pub const FILE_TEXT: &str = "ferrite-file-text";
/// Bytes of a file that decide whether it is text.
pub const SNIFFED: usize = 1024;

/// Whether a file that starts so is text: no control character that texts do not have.
#[must_use]
pub fn is_text(start: &[u8]) -> bool {
    let start = &start[..start.len().min(SNIFFED)];
    !start.iter().any(|byte| matches!(byte, 0x00..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_make_a_file_binary() {
        for text in ["", "plain\ttext\r\n", "é\x1b[0m", "<html>", "latin \u{a0}"] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        for binary in [b"\0".as_slice(), b"\x89PNG\r\n\x1a\n", b"a\x01b"] {
            assert!(!is_text(binary));
        }
        let mut late = vec![b'a'; SNIFFED];
        late.push(0);
        assert!(is_text(&late));
    }
}
