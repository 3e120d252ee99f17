//! Limits on Markdown that keep parsing linear.
//!
//! The parser's time per paragraph line grows with the containers (quotes and lists) around it and,
//! after an unfinished link title, with the lines before it. Both limits are far beyond real texts.

/// Line prefix that may open containers. Each takes at least one byte; a tab counts as two.
const MAX_LINE_PREFIX_BYTES: usize = 128;
/// Maximum number of lines in a row without a blank one.
const MAX_BLOCK_LINES: usize = 500;

/// Inserts blank lines into blocks with too many lines, and shortens long line prefixes.
#[must_use]
pub fn bounded(text: &str) -> String {
    let mut bounded = String::with_capacity(text.len());
    let mut block_lines = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(line_length(rest));
        rest = after;
        let is_blank = line.trim_end_matches(['\n', '\r']).bytes().all(|byte| matches!(byte, b' ' | b'\t'));
        block_lines = if is_blank { 0 } else { block_lines + 1 };
        if block_lines > MAX_BLOCK_LINES {
            // The first line feed may only complete a `\r`.
            bounded.push_str("\n\n");
            block_lines = 1;
        }
        let prefix = line.bytes().take_while(|byte| may_open_container(*byte)).count();
        bounded.push_str(&line[..prefix.min(MAX_LINE_PREFIX_BYTES)]);
        bounded.push_str(&line[prefix..]);
    }
    bounded
}

/// Returns the length of the first line, including its line end (`\n`, `\r` or both).
fn line_length(text: &str) -> usize {
    let Some(end) = text.find(['\n', '\r']) else { return text.len() };
    end + if text[end..].starts_with("\r\n") { 2 } else { 1 }
}

fn may_open_container(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'0'..=b'9' | b'.' | b')')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_blocks_are_split_at_every_kind_of_line_end() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("> a{end}");
            let text = line.repeat(1_001);
            let split = [line.repeat(500), line.repeat(500), line.clone()].join("\n\n");
            assert_eq!(bounded(&text), split, "{end:?}");
            let paragraphs = format!("{}{end}", line.repeat(500)).repeat(3);
            assert_eq!(bounded(&paragraphs), paragraphs, "{end:?}");
            let blank = format!(" \t{end}").repeat(1_000);
            assert_eq!(bounded(&blank), blank, "{end:?}");
            assert_ne!(bounded(&format!("\u{a0}{end}").repeat(1_000)).len(), 3_000, "no blank line: {end:?}");
        }
    }

    #[test]
    fn long_prefixes_of_lines_are_cut() {
        let marks = "> 1. ".repeat(1_000);
        assert_eq!(bounded(&format!("a {marks}\n{marks}b\n")), format!("a {marks}\n{}b\n", &marks[..128]));
        assert_eq!(bounded(&marks), &marks[..128]);
    }

    proptest! {
        #[test]
        fn other_texts_stay_as_they_are(text in "([> -]|1\\.|\\PC|\r|\n|\r\n){0,120}") {
            prop_assert_eq!(bounded(&text), text);
        }
    }
}
