//! HTTP headers that git-svc sends to the gateway with raw files, archives and diffs, and the rule
//! that tells text from binary files.

/// The name of the file, percent-encoded.
pub const FILE_NAME_HEADER: &str = "ferrite-file-name";
/// In a response with a range: whether the whole file is text, `true` or `false`. The range need
/// not contain the start of the file, which decides that.
pub const FILE_IS_TEXT_HEADER: &str = "ferrite-file-text";
/// The commit of an archive.
pub const ARCHIVE_COMMIT_HEADER: &str = "ferrite-commit";
/// The new commit of a diff.
pub const DIFF_COMMIT_HEADER: &str = "ferrite-diff-commit";
/// Number of bytes at the start of a file that decide whether it is text.
pub const TEXT_CHECK_BYTES: usize = 1024;

/// Whether a file that begins with `start` is text: it has no "binary data byte" of the WHATWG MIME
/// Sniffing Standard, which is a control character other than TAB, LF, FF, CR and ESC.
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
