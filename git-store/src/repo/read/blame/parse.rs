//! Parses the output of `git blame --incremental`.
//!
//! Lines are found in any order. Each range begins with `<commit> <original start> <start> <lines>`
//! and ends with `filename <path>`, if the commit has a parent with the file after `previous
//! <commit> <path>`. What is in between describes the commit, which we read ourselves.

use git2::Oid;

use crate::{
    repo::{objects::full_id, text::json_bytes},
    types::{error::GitError, path::MAX_PATH},
};

/// Limit on the paths of all ranges, in bytes of JSON.
const MAX_PATH_BYTES: usize = 4 << 20;
/// Bytes of a line that are kept. A path has at most four times its length in quotes.
const MAX_LINE_BYTES: usize = 4 * MAX_PATH + 64;

/// A file in a parent of the commit that changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The parent.
    pub commit: Oid,
    /// The path there.
    pub path: Vec<u8>,
}

/// Lines in a row that one commit changed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameRange {
    /// The first line, from 1.
    pub start: u32,
    /// The number of lines.
    pub lines: u32,
    /// The commit.
    pub commit: Oid,
    /// The path of the file in that commit.
    pub original_path: Vec<u8>,
    /// The first line in that commit, from 1.
    pub original_start: u32,
    /// The file before that commit; `None` if it added the file.
    pub previous: Option<Previous>,
}

impl BlameRange {
    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.original_path.len() + self.previous.as_ref().map_or(0, |file| file.path.len())
    }

    /// Whether the other range goes on where this one ends, there and in the commit.
    fn goes_on(&self, other: &Self) -> bool {
        self.start + self.lines == other.start
            && self.original_start.checked_add(self.lines) == Some(other.original_start)
            && self.commit == other.commit
            && self.original_path == other.original_path
    }
}

#[derive(Default)]
pub(super) struct BlameParser {
    /// The start of a line of which the rest is to come.
    line: Vec<u8>,
    /// Without its path.
    current: Option<BlameRange>,
    ranges: Vec<BlameRange>,
    path_bytes: usize,
}

impl BlameParser {
    /// Takes a part of the output.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = MAX_LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                let line = std::mem::take(&mut self.line);
                self.take(&line)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<(), GitError> {
        let Some(current) = &mut self.current else {
            self.current = Some(head(line).ok_or_else(malformed)?);
            return Ok(());
        };
        if let Some(rest) = line.strip_prefix(b"previous ") {
            let (id, rest) = rest.split_at_checked(40).ok_or_else(malformed)?;
            let commit = full_id(id).ok_or_else(malformed)?;
            let path = path_in(rest.strip_prefix(b" ").ok_or_else(malformed)?, line.len())?;
            current.previous = Some(Previous { commit, path });
        } else if let Some(rest) = line.strip_prefix(b"filename ") {
            current.original_path = path_in(rest, line.len())?;
            self.path_bytes += json_bytes(&current.original_path);
            self.path_bytes += current.previous.as_ref().map_or(0, |previous| json_bytes(&previous.path));
            if self.path_bytes > MAX_PATH_BYTES {
                return Err(GitError::TooLarge { what: "the size of all former paths", limit: MAX_PATH_BYTES as u64 });
            }
            self.ranges.extend(self.current.take());
        }
        Ok(())
    }

    /// Returns the ranges by line. They have all lines of the file.
    pub(super) fn finish(mut self, lines: u32) -> Result<Vec<BlameRange>, GitError> {
        self.ranges.sort_unstable_by_key(|range| range.start);
        let (mut joined, mut next) = (Vec::<BlameRange>::with_capacity(self.ranges.len()), 1);
        for range in self.ranges {
            if range.start != next {
                return Err(malformed());
            }
            next += range.lines;
            match joined.last_mut() {
                Some(last) if last.goes_on(&range) => last.lines += range.lines,
                _ => joined.push(range),
            }
        }
        if next == lines + 1 { Ok(joined) } else { Err(malformed()) }
    }
}

fn malformed() -> GitError {
    GitError::Internal("the output of git blame is malformed".to_owned())
}

/// Parses the first line of a range.
fn head(line: &[u8]) -> Option<BlameRange> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let commit = full_id(words.next()?.as_bytes())?;
    let mut number = || words.next()?.parse::<u32>().ok().filter(|number| (1..=i32::MAX as u32).contains(number));
    let (original_start, start, lines) = (number()?, number()?, number()?);
    Some(BlameRange { start, lines, commit, original_path: Vec::new(), original_start, previous: None })
}

/// Parses a path in a line of this length.
fn path_in(text: &[u8], line_bytes: usize) -> Result<Vec<u8>, GitError> {
    let too_long = || GitError::TooLarge { what: "the length of a former path", limit: MAX_PATH as u64 };
    if line_bytes >= MAX_LINE_BYTES {
        return Err(too_long());
    }
    let path = if text.starts_with(b"\"") { unquoted(text).ok_or_else(malformed)? } else { text.to_vec() };
    if path.len() > MAX_PATH { Err(too_long()) } else { Ok(path) }
}

/// Reads a path that git wrote as a string of C.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?.iter().copied();
    let mut path = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match bytes.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            escaped @ (b'"' | b'\\') => escaped,
            first @ b'0'..=b'3' => {
                let mut digit = || bytes.next().filter(|byte| (b'0'..=b'7').contains(byte)).map(|byte| byte - b'0');
                ((first - b'0') << 6) | (digit()? << 3) | digit()?
            }
            _ => return None,
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn parse(text: &str, lines: u32) -> Result<Vec<BlameRange>, GitError> {
        let whole = {
            let mut parser = BlameParser::default();
            parser.feed(text.as_bytes())?;
            parser.finish(lines)
        };
        let mut parser = BlameParser::default();
        for byte in text.as_bytes() {
            parser.feed(&[*byte])?;
        }
        let by_bytes = parser.finish(lines);
        assert_eq!(by_bytes.as_ref().ok(), whole.as_ref().ok());
        whole
    }

    #[test]
    fn ranges_are_sorted_and_joined_where_they_go_on() {
        let text = format!(
            "{ONE} 7 3 1\nauthor filename x\nsummary filename y\nprevious {TWO} \"a \\\"\\303\\244\\t\"\nfilename b\n\
             {TWO} 1 1 1\nboundary\nfilename c\n{TWO} 2 2 1\nfilename c\n{ONE} 1 4 2\nprevious {TWO} d\nfilename b\n"
        );
        let ranges = parse(&text, 5).unwrap();
        let shown: Vec<_> = ranges
            .iter()
            .map(|range| (range.start, range.lines, range.original_start, range.original_path.as_slice()))
            .collect();
        assert_eq!(shown, [(1, 2, 1, &b"c"[..]), (3, 1, 7, b"b"), (4, 2, 1, b"b")]);
        assert_eq!((ranges[0].commit.to_string().as_str(), &ranges[0].previous), (TWO, &None));
        let previous = ranges[1].previous.as_ref().unwrap();
        assert_eq!((previous.commit.to_string().as_str(), previous.path.as_slice()), (TWO, "a \"ä\t".as_bytes()));
    }

    #[test]
    fn lines_that_are_missing_or_malformed_are_an_error() {
        let whole = format!("{ONE} 1 1 2\nfilename a\n");
        assert!(parse(&whole, 2).is_ok());
        for (text, lines) in [
            (whole.clone(), 3),
            (whole.clone(), 1),
            (format!("{whole}{whole}"), 2),
            (String::new(), 1),
            (format!("{ONE} 0 1 2\nfilename a\n"), 2),
            ("x 1 1 2\nfilename a\n".to_owned(), 2),
            (format!("{ONE} 1 1 2\nfilename \"a\n"), 2),
            (format!("{ONE} 1 1 2\nprevious {ONE}\nfilename a\n"), 2),
        ] {
            assert!(matches!(parse(&text, lines), Err(GitError::Internal(_))), "{text}");
        }
    }

    #[test]
    fn long_texts_are_skipped_and_long_paths_refused() {
        let long = "x".repeat(100_000);
        let text = |path: &str| format!("{ONE} 1 1 1\nauthor {long}\nfilename {path}\n");
        assert_eq!(parse(&text("a"), 1).unwrap()[0].original_path, b"a");
        let (longest, longer) = ("x".repeat(MAX_PATH), "x".repeat(MAX_PATH + 1));
        assert!(parse(&text(&longest), 1).is_ok());
        for path in [longer.as_str(), &long, &format!("\"{}\"", "\\001".repeat(10_000))] {
            assert!(matches!(parse(&text(path), 1), Err(GitError::TooLarge { .. })));
        }
        let range = |line: usize| format!("{ONE} 1 {line} 1\nfilename {longest}\n");
        let many: String = (1..=1200).map(range).collect();
        assert!(matches!(parse(&many, 1200), Err(GitError::TooLarge { .. })));
    }
}
