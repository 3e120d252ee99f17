//! Parses the output of `git diff-tree --stdin --raw --numstat -z`: for each commit its id, then
//! its files, then their numbers of lines. All end in NUL. With `--patch` an empty item and the
//! text follow.

use super::{ChangeLimits, ChangeStatus, ChangedFile, Changes, DiffPair};
use crate::{
    git::command::diff::Whitespace,
    repo::{objects::full_id, text::json_bytes},
    types::error::GitError,
};

/// Longest item, which is a path at most.
const MAX_ITEM_BYTES: usize = 1 << 20;

/// Reads output in pieces of any size.
pub(super) struct ChangesParser<'a> {
    pairs: &'a [DiffPair],
    limits: ChangeLimits,
    /// By pair; `None` for those that git has not printed.
    pub(super) changes: Vec<Option<Changes>>,
    /// Index of the pair after the current one.
    next: usize,
    /// Index of the file of the current pair whose lines are next.
    next_lines: usize,
    item: Vec<u8>,
    expected: Item,
    files_left: usize,
    bytes_left: usize,
}

enum Item {
    /// An id, a file, the lines of a file, or the empty item before the text.
    Any,
    Path(ChangedFile),
    /// The new path of a file that has been renamed or copied.
    NewPath(ChangedFile),
    /// The old path after lines of a file that has been renamed or copied.
    OldPathOfLines(Lines),
    PathOfLines(Lines),
}

/// Added and deleted lines; `None` for a binary file.
type Lines = Option<(u64, u64)>;

impl<'a> ChangesParser<'a> {
    pub(super) fn new(pairs: &'a [DiffPair], limits: ChangeLimits) -> Self {
        Self {
            pairs,
            limits,
            changes: vec![None; pairs.len()],
            next: 0,
            next_lines: 0,
            item: Vec::new(),
            expected: Item::Any,
            files_left: limits.files_of_all,
            bytes_left: limits.path_bytes,
        }
    }

    /// Parses a piece. Returns the start of the text if it is in this piece.
    pub(super) fn feed<'bytes>(&mut self, bytes: &'bytes [u8]) -> Result<Option<&'bytes [u8]>, GitError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            self.extend(&rest[..end])?;
            rest = &rest[end + 1..];
            let item = std::mem::take(&mut self.item);
            if item.is_empty() && matches!(self.expected, Item::Any) {
                self.end_pair();
                return Ok(Some(rest));
            }
            self.add(item)?;
        }
        self.extend(rest)?;
        Ok(None)
    }

    /// Ends the current pair, of which everything was read.
    pub(super) fn end_pair(&mut self) {
        let ignores_whitespace = self.limits.whitespace != Whitespace::ShowAll;
        if let Some(changes) = self.current().filter(|_| ignores_whitespace) {
            changes.leave_out_ignored();
        }
    }

    /// Marks the current pair as incomplete, because reading stopped.
    pub(super) fn cut(&mut self) {
        if let Some(changes) = self.current() {
            changes.is_truncated = true;
        }
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        if self.item.len() + bytes.len() > MAX_ITEM_BYTES {
            return Err(GitError::TooLarge { what: "a path in bytes", limit: MAX_ITEM_BYTES as u64 });
        }
        self.item.extend_from_slice(bytes);
        Ok(())
    }

    fn current(&mut self) -> Option<&mut Changes> {
        self.next.checked_sub(1).and_then(|at| self.changes[at].as_mut())
    }

    fn add(&mut self, item: Vec<u8>) -> Result<(), GitError> {
        self.expected = match std::mem::replace(&mut self.expected, Item::Any) {
            Item::Any => self.begin(&item).ok_or_else(unexpected)?,
            Item::Path(file) if matches!(file.status, ChangeStatus::Renamed | ChangeStatus::Copied) => {
                Item::NewPath(ChangedFile { old_path: Some(item), ..file })
            }
            Item::Path(file) | Item::NewPath(file) => {
                self.add_file(ChangedFile { path: item, ..file });
                Item::Any
            }
            Item::OldPathOfLines(lines) => Item::PathOfLines(lines),
            Item::PathOfLines(lines) => {
                self.add_lines(&item, lines);
                Item::Any
            }
        };
        Ok(())
    }

    /// Parses an item that is no path. Returns what is next.
    fn begin(&mut self, item: &[u8]) -> Option<Item> {
        if let Some(file) = item.strip_prefix(b":") {
            self.current()?;
            return file_of(file).map(Item::Path);
        }
        if let Some(id) = full_id(item) {
            let found = self.pairs[self.next..].iter().position(|pair| pair.new == id)?;
            self.end_pair();
            self.changes[self.next + found] = Some(Changes::default());
            (self.next, self.next_lines) = (self.next + found + 1, 0);
            return Some(Item::Any);
        }
        self.current()?;
        let mut parts = item.splitn(3, |byte| *byte == b'\t');
        let (added, deleted, path) = (parts.next()?, parts.next()?, parts.next()?);
        let lines = if added == b"-" { None } else { Some((number(added, 10)?, number(deleted, 10)?)) };
        if path.is_empty() {
            return Some(Item::OldPathOfLines(lines));
        }
        self.add_lines(path, lines);
        Some(Item::Any)
    }

    fn add_file(&mut self, file: ChangedFile) {
        let bytes = json_bytes(&file.path) + file.old_path.as_deref().map_or(0, json_bytes);
        let (files_left, bytes_left, limit) = (self.files_left, self.bytes_left, self.limits.files);
        let Some(changes) = self.current() else { return };
        changes.file_count += 1;
        // After the first one that is left out all are, so that the list is the beginning.
        if changes.is_truncated || changes.files.len() >= limit || files_left == 0 || bytes > bytes_left {
            changes.is_truncated = true;
            return;
        }
        changes.files.push(file);
        (self.files_left, self.bytes_left) = (files_left - 1, bytes_left - bytes);
    }

    /// Adds the lines of the next file. git prints them in the order of the files.
    fn add_lines(&mut self, path: &[u8], lines: Lines) {
        let first = self.next_lines;
        let Some(changes) = self.current() else { return };
        let (additions, deletions) = lines.unwrap_or_default();
        changes.additions += additions;
        changes.deletions += deletions;
        let Some(found) = changes.files[first..].iter().position(|file| file.path == path) else { return };
        let file = &mut changes.files[first + found];
        (file.additions, file.deletions, file.is_binary) = (additions, deletions, lines.is_none());
        self.next_lines = first + found + 1;
    }
}

/// Parses `<old mode> <new mode> <old id> <new id> <status>[<similarity>]`.
fn file_of(text: &[u8]) -> Option<ChangedFile> {
    let parts: Vec<_> = text.split(|byte| *byte == b' ').collect();
    let [old_mode, new_mode, old_id, new_id, status] = parts[..] else { return None };
    let (letter, score) = status.split_first()?;
    let status = match letter {
        b'A' => ChangeStatus::Added,
        b'M' => ChangeStatus::Changed,
        b'D' => ChangeStatus::Deleted,
        b'R' => ChangeStatus::Renamed,
        b'C' => ChangeStatus::Copied,
        b'T' => ChangeStatus::TypeChanged,
        _ => return None,
    };
    let is_moved = matches!(status, ChangeStatus::Renamed | ChangeStatus::Copied);
    Some(ChangedFile {
        status,
        path: Vec::new(),
        old_path: None,
        old_mode: u32::try_from(number(old_mode, 8)?).ok()?,
        new_mode: u32::try_from(number(new_mode, 8)?).ok()?,
        old_id: full_id(old_id)?,
        new_id: full_id(new_id)?,
        similarity: if is_moved { u32::try_from(number(score, 10)?).ok()? } else { 0 },
        additions: 0,
        deletions: 0,
        is_binary: false,
    })
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

fn unexpected() -> GitError {
    GitError::Internal("git printed changes in an unknown form".to_owned())
}

#[cfg(test)]
mod tests {
    use git2::Oid;

    use super::*;

    const FILE: &str = "0000000 1111111";

    fn id(digit: char) -> Oid {
        Oid::from_str(&digit.to_string().repeat(40)).unwrap()
    }

    fn pairs(digits: &str) -> Vec<DiffPair> {
        digits.chars().map(|digit| DiffPair { old: None, new: id(digit) }).collect()
    }

    /// Fills in ids: `a` and `b` stand for them.
    fn raw(status: &str, old_mode: &str, new_mode: &str) -> String {
        format!(":{old_mode} {new_mode} {} {} {status}", id('a'), id('b'))
    }

    fn parse<'a>(
        pairs: &'a [DiffPair],
        limits: ChangeLimits,
        items: &[String],
        piece: usize,
    ) -> Result<(ChangesParser<'a>, Vec<u8>), GitError> {
        let output: Vec<u8> = items.iter().flat_map(|item| [item.as_bytes(), b"\0"].concat()).collect();
        let (mut parser, mut text) = (ChangesParser::new(pairs, limits), None);
        for piece in output.chunks(piece) {
            match &mut text {
                None => text = parser.feed(piece)?.map(<[u8]>::to_vec),
                Some(text) => text.extend_from_slice(piece),
            }
        }
        Ok((parser, text.unwrap_or_default()))
    }

    fn all_kinds() -> Vec<String> {
        let one = id('1').to_string();
        let items = [
            one,
            raw("A", "000000", "100644"),
            "new".into(),
            raw("M", "100644", "100755"),
            "a\tb\n\"c\" \u{e4}".into(),
            raw("D", "120000", "000000"),
            ":link".into(),
            raw("R087", "100644", "100644"),
            "from".into(),
            "to\n1\t2\tx".into(),
            raw("C100", "100644", "100644"),
            "from".into(),
            "copy".into(),
            raw("T", "100644", "160000"),
            "sub".into(),
            "3\t0\tnew".into(),
            "-\t-\ta\tb\n\"c\" \u{e4}".into(),
            "0\t1\t:link".into(),
            "5\t4\t".into(),
            "from".into(),
            "to\n1\t2\tx".into(),
            "0\t0\t".into(),
            "from".into(),
            "copy".into(),
            "1\t7\tsub".into(),
        ];
        items.to_vec()
    }

    #[test]
    fn every_kind_of_change_is_read_from_pieces_of_any_size() {
        let pairs = pairs("1");
        for piece in [1, 3, 50, 10_000] {
            let (parser, _) = parse(&pairs, ChangeLimits::single(), &all_kinds(), piece).unwrap();
            let changes = parser.changes[0].as_ref().unwrap();
            assert_eq!((changes.additions, changes.deletions, changes.file_count), (9, 12, 6));
            assert!(!changes.is_truncated);
            let shown: Vec<_> = changes
                .files
                .iter()
                .map(|file| (file.status, file.path.as_slice(), file.additions, file.deletions, file.is_binary))
                .collect();
            let expected = [
                (ChangeStatus::Added, b"new".as_slice(), 3, 0, false),
                (ChangeStatus::Changed, "a\tb\n\"c\" \u{e4}".as_bytes(), 0, 0, true),
                (ChangeStatus::Deleted, b":link", 0, 1, false),
                (ChangeStatus::Renamed, b"to\n1\t2\tx", 5, 4, false),
                (ChangeStatus::Copied, b"copy", 0, 0, false),
                (ChangeStatus::TypeChanged, b"sub", 1, 7, false),
            ];
            assert_eq!(shown, expected, "{piece}");
            let moved = &changes.files[3];
            assert_eq!((moved.old_path.as_deref(), moved.similarity), (Some(b"from".as_slice()), 87));
            assert_eq!((moved.old_id, moved.new_id), (id('a'), id('b')));
            assert_eq!((changes.files[1].old_mode, changes.files[1].new_mode), (0o100_644, 0o100_755));
            assert_eq!((changes.files[5].old_path.as_ref(), changes.files[5].new_mode), (None, 0o160_000));
        }
    }

    #[test]
    fn commits_without_changes_and_missing_ones_are_told_apart() {
        let pairs = pairs("12342");
        let file = |path: &str| [raw("A", "000000", "100644"), path.to_owned()];
        let items = [
            vec![id('1').to_string()],
            file("x").to_vec(),
            vec![id('3').to_string()],
            vec![id('4').to_string()],
            file("y").to_vec(),
            vec![id('2').to_string()],
        ]
        .concat();
        let (parser, _) = parse(&pairs, ChangeLimits::page(), &items, 7).unwrap();
        let files: Vec<_> = parser.changes.iter().map(|one| one.as_ref().map(|one| one.files.len())).collect();
        assert_eq!(files, [Some(1), None, Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn the_text_begins_after_an_empty_item() {
        let pairs = pairs("1");
        let items =
            [vec![id('1').to_string()], all_kinds()[1..3].to_vec(), vec![String::new(), "diff --git".to_owned()]]
                .concat();
        for piece in [1, 9, 1000] {
            let (_, text) = parse(&pairs, ChangeLimits::single(), &items, piece).unwrap();
            assert_eq!(text, b"diff --git\0", "{piece}");
        }
    }

    #[test]
    fn files_beyond_a_limit_are_counted_but_not_kept() {
        let pairs = pairs("12");
        let mut items = Vec::new();
        for commit in ['1', '2'] {
            items.push(id(commit).to_string());
            for name in ["a", "b", "c"] {
                items.extend([raw("A", "000000", "100644"), name.to_owned()]);
            }
            items.extend(["a", "b", "c"].map(|name| format!("2\t1\t{name}")));
        }
        let limits = ChangeLimits { files: 2, files_of_all: 3, path_bytes: 100, ..ChangeLimits::single() };
        for (limits, expected) in [(limits, [2, 1]), (ChangeLimits { path_bytes: 1, ..limits }, [1, 0])] {
            let (parser, _) = parse(&pairs, limits, &items, 11).unwrap();
            for (changes, count) in parser.changes.iter().flatten().zip(expected) {
                assert_eq!((changes.files.len(), changes.file_count, changes.is_truncated), (count, 3, true));
                assert_eq!((changes.additions, changes.deletions), (6, 3));
                assert!(changes.files.iter().all(|file| (file.additions, file.deletions) == (2, 1)));
            }
        }
    }

    #[test]
    fn what_git_does_not_print_is_an_error() {
        let pairs = pairs("1");
        let one = id('1').to_string();
        for items in [
            vec![id('2').to_string()],
            vec![raw("A", "000000", "100644")],
            vec![one.clone(), raw("X", "000000", "100644")],
            vec![one.clone(), format!(":{FILE}")],
            vec![one.clone(), "1\tx".into()],
            vec![one.clone(), "x\t1\tpath".into()],
            vec![one.clone(), one.clone()],
            vec![one.clone(), raw("A", "000000", "100644"), "p".repeat(MAX_ITEM_BYTES + 1)],
        ] {
            assert!(parse(&pairs, ChangeLimits::single(), &items, 100).is_err(), "{:.80?}", items.last());
        }
    }

    mod any_bytes {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn nothing_panics(output in "(:|\u{0}|[0-9]{1,6}|[ARMX]|\t|-| |1{40}){0,60}", piece in 1usize..50) {
                let pairs = pairs("11");
                let mut parser = ChangesParser::new(&pairs, ChangeLimits::page());
                for piece in output.as_bytes().chunks(piece) {
                    if !matches!(parser.feed(piece), Ok(None)) {
                        break;
                    }
                }
                parser.cut();
            }
        }
    }
}
