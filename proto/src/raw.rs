//! HTTP headers that git-svc sends to the gateway with the content of a file and with an archive, and the rule that tells text from
//! binary files.

/// Header with the name of the file, percent-encoded.
pub const FILE_NAME_HEADER: &str = "ferrite-file-name";
/// Header of a response with a range: `true` if the whole file is text, else `false`. A range need not contain the beginning of the
/// file, from which the gateway could tell.
pub const FILE_IS_TEXT_HEADER: &str = "ferrite-file-text";
/// Header of an archive: the id of the commit that it was made of.
pub const ARCHIVE_COMMIT_HEADER: &str = "ferrite-commit";
/// Number of bytes at the beginning of a file that decide whether the file is text.
pub const TEXT_CHECK_BYTES: usize = 1024;

/// Returns whether a file that begins with `start` is text: `start` has no "binary data byte" of the WHATWG MIME Sniffing Standard, that
/// is no control character except TAB, LF, FF, CR and ESC.
#[must_use]
pub fn is_text(start: &[u8]) -> bool {
    let start = &start[..start.len().min(TEXT_CHECK_BYTES)];
    !start.iter().any(|byte| matches!(byte, 0x00..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_control_characters_are_binary() {
        for text in ["", "plain\ttext\r\n", "é\x1b[0m", "<html>", "latin \u{a0}"] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        for binary in [b"\0".as_slice(), b"\x89PNG\r\n\x1a\n", b"a\x01b"] {
            assert!(!is_text(binary));
        }
        let mut late = vec![b'a'; TEXT_CHECK_BYTES];
        late.push(0);
        assert!(is_text(&late));
    }
}
