//! The texts of files as browsers edit them, which end all lines in the same way.

use ferrite_proto::raw::is_text;

/// A text to edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// The text with line feeds alone.
    pub(super) text: String,
    /// Whether most lines of the file end with CRLF.
    pub(super) is_crlf: bool,
    /// Whether some lines of the file end in another way than most of them.
    pub(super) is_mixed: bool,
}

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let count = |end: &str| text.matches(end).count();
        let (crlf, feeds, returns) = (count("\r\n"), count("\n"), count("\r"));
        Self {
            text: text.replace("\r\n", "\n").replace('\r', "\n"),
            is_crlf: crlf * 2 > feeds,
            is_mixed: returns != crlf || (crlf != 0 && crlf != feeds),
        }
    }

    /// Returns a text as the file has it.
    pub(super) fn restore(text: &str, is_crlf: bool) -> String {
        if is_crlf { text.replace('\n', "\r\n") } else { text.to_owned() }
    }
}

/// Returns the content of a file that browsers can edit: a text that they send back unchanged.
pub(in crate::pages::repositories) fn editable(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    (is_text(content) && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_before() {
        for (text, is_crlf, is_mixed) in [
            ("", false, false),
            ("a", false, false),
            ("\na\n\n", false, false),
            ("a\r\nb\r\n", true, false),
            ("a\r\nb", true, false),
        ] {
            let lines = Lines::of(text);
            assert_eq!((lines.is_crlf, lines.is_mixed), (is_crlf, is_mixed), "{text:?}");
            assert!(!lines.text.contains('\r'));
            assert_eq!(Lines::restore(&lines.text, lines.is_crlf), text);
        }
    }

    #[test]
    fn different_ends_become_those_of_most_lines() {
        for (text, restored) in [
            ("a\r\nb\r\nc\n", "a\r\nb\r\nc\r\n"),
            ("a\nb\nc\r\n", "a\nb\nc\n"),
            ("a\rb\n", "a\nb\n"),
            ("a\r\nb\n", "a\nb\n"),
        ] {
            let lines = Lines::of(text);
            assert!(lines.is_mixed, "{text:?}");
            assert_eq!(Lines::restore(&lines.text, lines.is_crlf), restored);
        }
    }

    #[test]
    fn only_text_is_edited() {
        assert_eq!(editable("é\r\n".as_bytes()), Some("é\r\n"));
        assert_eq!((editable(b"a\0"), editable(b"caf\xe9"), editable(b"\x01")), (None, None, None));
        let late = ["a".repeat(1 << 16), "\0".to_owned()].concat();
        assert_eq!(editable(late.as_bytes()), None);
    }
}
