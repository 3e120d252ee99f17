//! Compares pairs of blobs with one process. Two folders in a scratch folder hold them under
//! numbers, so paths are neither passed nor parsed, and git looks for no renames.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ops::Range,
    path::Path,
};

use ferrite_proto::id::RepositoryId;
use git2::{ObjectType, Oid};

use super::{
    DIFF_TIMEOUT, Hunk, LineKind,
    patch::{hunk_of, split_line},
    process::{End, ReadLimits, Stop, read},
};
use crate::{
    disk::{loose_objects::NewObject, scratch::Scratch},
    git::command::Git,
    repo::{pool::Pool, text::truncate},
    types::error::GitError,
};

/// Maximum number of lines of a hunk up to a line.
pub const MAX_HUNK_LINES: usize = 40;
/// Longest hunk up to a line, with its header, in bytes.
pub const MAX_HUNK_BYTES: usize = 8 << 10;
/// Bytes kept for the header of a hunk: four numbers and what is between them.
const MAX_HEADER_BYTES: usize = 64;
/// Lines around the changes of a hunk, as in other diffs.
const CONTEXT_LINES: u32 = 3;
/// Output is not kept, so time is the narrower limit.
const LIMITS: ReadLimits = ReadLimits { bytes: 1 << 30, time: DIFF_TIMEOUT };

/// Two blobs to compare, which differ; `None` for a file that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobPair {
    /// The old blob.
    pub old: Option<Oid>,
    /// The new blob.
    pub new: Option<Oid>,
}

/// Lines that differ, counted from 0. One of the ranges may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedLines {
    /// In the old blob.
    pub old: Range<u32>,
    /// In the new blob.
    pub new: Range<u32>,
}

/// A line to find in the hunks of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShownLine {
    /// Index of the pair.
    pub pair: usize,
    /// Whether it is a line of the old blob.
    pub is_old: bool,
    /// The line, from 1.
    pub line: u32,
}

/// Compares blobs of one repository.
#[derive(Clone, Copy)]
pub struct Comparer<'a> {
    git: &'a Git,
    pool: &'a Pool,
    repository: RepositoryId,
}

impl<'a> Comparer<'a> {
    /// Compares in a repository of the pool's store.
    #[must_use]
    pub fn new(git: &'a Git, pool: &'a Pool, repository: RepositoryId) -> Self {
        Self { git, pool, repository }
    }

    /// Returns the lines that differ, by pair and in the order of the lines.
    ///
    /// # Errors
    /// `RepositoryNotFound`; `TimedOut`, also if git needs too much memory; and `Command`.
    pub async fn changed_lines(&self, pairs: &[BlobPair]) -> Result<Vec<Vec<ChangedLines>>, GitError> {
        let mut changes = vec![Vec::new(); pairs.len()];
        self.compare(pairs, 0, |pair, part| {
            if let Part::Hunk(hunk) = part {
                changes[pair].push(ChangedLines {
                    old: range(hunk.old_start, hunk.old_lines),
                    new: range(hunk.new_start, hunk.new_lines),
                });
            }
        })
        .await?;
        Ok(changes)
    }

    /// Returns the hunks that show lines, each from at most [`MAX_HUNK_LINES`] before up to its line;
    /// empty for a line in no hunk. The header counts the lines that are there.
    ///
    /// # Errors
    /// As [`Comparer::changed_lines`].
    pub async fn hunks_up_to(&self, pairs: &[BlobPair], lines: &[ShownLine]) -> Result<Vec<String>, GitError> {
        let mut found = HashMap::new();
        let wanted: HashSet<ShownLine> = lines.iter().copied().collect();
        let mut recent = RecentLines::default();
        self.compare(pairs, CONTEXT_LINES, |pair, part| match part {
            Part::Hunk(hunk) => recent = RecentLines::before(&hunk),
            Part::Line(kind, text) => {
                recent.push(kind, text);
                for (is_old, line) in recent.sides_of(kind) {
                    let line = ShownLine { pair, is_old, line };
                    if wanted.contains(&line) {
                        found.insert(line, recent.print());
                    }
                }
            }
            Part::NoLineFeed => recent.end_without_line_feed(),
        })
        .await?;
        Ok(lines.iter().map(|line| found.get(line).cloned().unwrap_or_default()).collect())
    }

    async fn compare(
        &self,
        pairs: &[BlobPair],
        context: u32,
        mut take: impl FnMut(usize, Part<'_>),
    ) -> Result<(), GitError> {
        let id = self.repository;
        let old = numbered_tree(pairs.iter().map(|pair| pair.old))?;
        let new = numbered_tree(pairs.iter().map(|pair| pair.new))?;
        let input = format!("{} {}\n", old.id(), new.id());
        let make = self.pool.run_blocking(move |store| {
            let scratch = store.make_scratch(id)?;
            scratch.write(&old)?;
            scratch.write(&new)?;
            Ok((store.path(id), scratch))
        });
        let (path, scratch) = make.await?;
        let mut parser = BlobParser::new(pairs.len());
        let end = self.run(&path, &scratch, context, &input, |bytes| parser.feed(bytes, &mut take)).await;
        // Removal blocks. If the pool is busy, the folder was removed here.
        let remove = self.pool.run_blocking(move |_| {
            drop(scratch);
            Ok(())
        });
        drop(remove.await);
        match end? {
            End::Complete => Ok(()),
            End::Cut => Err(GitError::TimedOut { what: "comparing files" }),
            End::Failed(error) => Err(error),
        }
    }

    async fn run(
        &self,
        repository: &Path,
        scratch: &Scratch,
        context: u32,
        input: &str,
        take: impl FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<End, GitError> {
        let child = self.git.compare_trees(repository, scratch.path(), context)?;
        read(child, input.as_bytes(), LIMITS, take).await
    }
}

/// Returns a folder that holds blobs under their numbers. Those that do not exist are left out.
pub(in crate::repo) fn numbered_tree(blobs: impl Iterator<Item = Option<Oid>>) -> Result<NewObject, GitError> {
    let mut content = Vec::new();
    for (number, id) in blobs.enumerate() {
        if let Some(id) = id {
            content.extend_from_slice(format!("100644 {number:08}\0").as_bytes());
            content.extend_from_slice(id.as_bytes());
        }
    }
    NewObject::new(ObjectType::Tree, content)
}

/// Returns the lines of a range of a header, from 0. That of no lines names the line before it.
fn range(start: u32, lines: u32) -> Range<u32> {
    let start = if lines == 0 { start } else { start.saturating_sub(1) };
    start..start.saturating_add(lines)
}

/// A part of the comparison of a pair.
enum Part<'a> {
    Hunk(Hunk),
    /// A line of the last hunk.
    Line(LineKind, &'a [u8]),
    /// The last line has no line feed.
    NoLineFeed,
}

/// Reads text in pieces of any size. The header of a hunk says how many lines follow, so no line of
/// a file can look like a header.
struct BlobParser {
    pairs: usize,
    pair: Option<usize>,
    /// Lines of the current hunk that follow: of the old and of the new blob.
    old_left: u32,
    new_left: u32,
    line: Vec<u8>,
}

impl BlobParser {
    fn new(pairs: usize) -> Self {
        Self { pairs, pair: None, old_left: 0, new_left: 0, line: Vec::new() }
    }

    fn feed(&mut self, bytes: &[u8], take: &mut impl FnMut(usize, Part<'_>)) -> Result<(), Stop> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.add(&line, take).ok_or_else(unexpected)?;
            // Keeps its capacity for the next line.
            self.line = line;
            self.line.clear();
        }
        self.extend(rest);
        Ok(())
    }

    /// Keeps no more of a line than a hunk can show, and a byte for its side.
    fn extend(&mut self, bytes: &[u8]) {
        let room = (MAX_HUNK_BYTES + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns `None` if the line is not what git prints.
    fn add(&mut self, line: &[u8], take: &mut impl FnMut(usize, Part<'_>)) -> Option<()> {
        if self.old_left > 0 || self.new_left > 0 {
            let pair = self.pair?;
            let Some((kind, text)) = split_line(line) else {
                take(pair, Part::NoLineFeed);
                return Some(());
            };
            self.old_left = self.old_left.saturating_sub(u32::from(kind != LineKind::Added));
            self.new_left = self.new_left.saturating_sub(u32::from(kind != LineKind::Deleted));
            take(pair, Part::Line(kind, text));
        } else if let Some(names) = line.strip_prefix(b"diff --git a/") {
            let number = std::str::from_utf8(names.get(..8)?).ok()?.parse().ok()?;
            self.pair = Some(number).filter(|number| *number < self.pairs);
            self.pair?;
        } else if line.starts_with(b"@@ ") {
            let hunk = hunk_of(line)?;
            (self.old_left, self.new_left) = (hunk.old_lines, hunk.new_lines);
            take(self.pair?, Part::Hunk(hunk));
        } else if line.starts_with(b"\\") {
            take(self.pair?, Part::NoLineFeed);
        }
        // Other lines are of headers.
        Some(())
    }
}

fn unexpected() -> Stop {
    Stop::Error(GitError::Internal("git printed a comparison in an unknown form".to_owned()))
}

/// A line of a hunk, with the numbers of old and new lines before it.
struct RecentLine {
    kind: LineKind,
    old_before: u32,
    new_before: u32,
    text: String,
}

/// The last lines of a hunk.
#[derive(Default)]
struct RecentLines {
    lines: VecDeque<RecentLine>,
    /// The old and new lines up to here.
    old: u32,
    new: u32,
}

impl RecentLines {
    fn before(hunk: &Hunk) -> Self {
        let (old, new) = (range(hunk.old_start, hunk.old_lines).start, range(hunk.new_start, hunk.new_lines).start);
        Self { lines: VecDeque::new(), old, new }
    }

    fn push(&mut self, kind: LineKind, text: &[u8]) {
        let side = match kind {
            LineKind::Context => ' ',
            LineKind::Added => '+',
            LineKind::Deleted => '-',
        };
        // A database may not take a NUL.
        let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
        let text = format!("{side}{text}");
        if self.lines.len() >= MAX_HUNK_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(RecentLine { kind, old_before: self.old, new_before: self.new, text });
        self.old += u32::from(kind != LineKind::Added);
        self.new += u32::from(kind != LineKind::Deleted);
    }

    /// Returns the sides that have the last line, of this kind, and its number there.
    fn sides_of(&self, kind: LineKind) -> impl Iterator<Item = (bool, u32)> + use<> {
        let old = (kind != LineKind::Added).then_some((true, self.old));
        let new = (kind != LineKind::Deleted).then_some((false, self.new));
        old.into_iter().chain(new)
    }

    fn end_without_line_feed(&mut self) {
        if let Some(line) = self.lines.back_mut() {
            line.text.push_str("\n\\ No newline at end of file");
        }
    }

    /// Prints as many of the last lines as fit, without a line feed at the end. Only a single line is
    /// cut.
    fn print(&self) -> String {
        let (mut room, mut first) = (MAX_HUNK_BYTES - MAX_HEADER_BYTES, self.lines.len());
        while let Some(rest) = first.checked_sub(1).and_then(|at| room.checked_sub(self.lines[at].text.len() + 1)) {
            (room, first) = (rest, first - 1);
        }
        first = first.min(self.lines.len().saturating_sub(1));
        let shown = || self.lines.iter().skip(first);
        let Some(RecentLine { old_before, new_before, .. }) = shown().next() else { return String::new() };
        let old = shown().filter(|line| line.kind != LineKind::Added).count();
        let new = shown().filter(|line| line.kind != LineKind::Deleted).count();
        let start = |before: &u32, lines: usize| if lines == 0 { *before } else { before + 1 };
        let mut text = format!("@@ -{},{old} +{},{new} @@", start(old_before, old), start(new_before, new));
        for line in shown() {
            text.push('\n');
            text.push_str(&line.text);
        }
        truncate(&mut text, MAX_HUNK_BYTES);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(lines: &[(LineKind, &str)]) -> RecentLines {
        let header = Hunk { old_start: 10, old_lines: 9, new_start: 12, new_lines: 9, ..Hunk::default() };
        let mut recent = RecentLines::before(&header);
        lines.iter().for_each(|(kind, text)| recent.push(*kind, text.as_bytes()));
        recent
    }

    #[test]
    fn a_hunk_begins_with_the_lines_that_fit() {
        let (context, added, deleted) = (LineKind::Context, LineKind::Added, LineKind::Deleted);
        let short = recent(&[(context, "a"), (deleted, "b"), (added, "c")]);
        assert_eq!(short.print(), "@@ -10,2 +12,2 @@\n a\n-b\n+c");
        assert_eq!(recent(&[(added, "a")]).print(), "@@ -9,0 +12,1 @@\n+a");
        assert_eq!(recent(&[(deleted, "a\0")]).print(), "@@ -10,1 +11,0 @@\n-a\u{fffd}");
        let many: Vec<_> = (0..100).map(|_| (context, "x")).collect();
        let text = recent(&many).print();
        assert!(text.starts_with("@@ -70,40 +72,40 @@\n x\n") && text.lines().count() == 41, "{text}");
        let wide = "ä".repeat(2100);
        let text = recent(&[(context, "a"), (context, &wide), (added, &wide)]).print();
        assert_eq!(text, format!("@@ -11,0 +14,1 @@\n+{wide}"));
        let text = recent(&[(context, "a"), (added, &wide.repeat(4))]).print();
        assert!(text.starts_with("@@ -10,0 +13,1 @@\n+ää") && text.ends_with('ä'), "{text}");
        assert!((MAX_HUNK_BYTES - 3..=MAX_HUNK_BYTES).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn pieces_of_any_size_are_the_same_text() {
        let text = b"1234567890123456789012345678901234567890 1234567890123456789012345678901234567890\n\
            diff --git a/00000001 b/00000001\nindex 1..2 100644\n--- a/00000001\n+++ b/00000001\n\
            @@ -1,2 +1,2 @@ f\n--- a\n+++ b\n\n\\ No newline at end of file\n@@ -9 +9,0 @@\n-x\n\
            diff --git a/00000002 b/00000002\nBinary files a/00000002 and b/00000002 differ\n";
        for piece in 1..20 {
            let (mut parser, mut seen) = (BlobParser::new(3), Vec::new());
            let mut take = |pair: usize, part: Part<'_>| {
                seen.push(match part {
                    Part::Hunk(hunk) => format!("{pair} hunk {}", hunk.old_start),
                    Part::Line(kind, line) => format!("{pair} {kind:?} {}", String::from_utf8_lossy(line)),
                    Part::NoLineFeed => format!("{pair} end"),
                });
            };
            for piece in text.chunks(piece) {
                assert!(parser.feed(piece, &mut take).is_ok());
            }
            let expected =
                ["1 hunk 1", "1 Deleted -- a", "1 Added ++ b", "1 Context ", "1 end", "1 hunk 9", "1 Deleted x"];
            assert_eq!(seen, expected);
        }
        let mut parser = BlobParser::new(1);
        assert!(parser.feed(b"diff --git a/00000001 b/00000001\n", &mut |_, _| ()).is_err());
        assert!(BlobParser::new(1).feed(b"@@ -1 +1 @@\n", &mut |_, _| ()).is_err());
    }
}
