//! Parses the output of `git diff`, line by line.

use ferrite_api_types::links::encode_path;

use super::{
    Change, Diff, FileDiff, Kind, MAX_FILE_LINES, MAX_FILES, MAX_LINE_BYTES, MAX_LINES, Remarks, Row, Side, Style,
    anchor,
};

pub(super) struct Parser {
    diff: Diff,
    file: Option<OpenFile>,
    /// Lines that can still be shown.
    lines_left: usize,
}

/// The file that is being read.
struct OpenFile {
    file: FileDiff,
    style: Style,
    names: Names,
    old_mode: Option<String>,
    is_in_header: bool,
    /// The rest of the hunk, on each side.
    old: Counter,
    new: Counter,
    /// Removed and added lines that are yet to be put side by side.
    removed: Vec<Side>,
    added: Vec<Side>,
    line_count: usize,
}

/// The paths of a file, in the places where git writes them.
#[derive(Default)]
struct Names {
    header: Vec<u8>,
    /// In the lines `---` and `+++`.
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    /// Of a renamed or copied file.
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

/// The lines of one side of a hunk.
#[derive(Default)]
struct Counter {
    number: u64,
    left: u64,
}

impl Parser {
    pub(super) fn new(style: Style) -> Self {
        let diff = Diff {
            style,
            files: Vec::new(),
            hidden_files: 0,
            additions: 0,
            deletions: 0,
            is_cut: false,
            here: String::new(),
            source: String::new(),
            raw: String::new(),
            remarks: Remarks::default(),
        };
        Self { diff, file: None, lines_left: MAX_LINES }
    }

    pub(super) fn line(&mut self, line: &str) {
        if let Some(file) = &mut self.file
            && file.hunk_line(line, &mut self.lines_left)
        {
            return;
        }
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.close_file();
            self.file = Some(OpenFile::new(names, self.diff.style));
        } else if let Some(file) = &mut self.file {
            file.header_line(line);
        }
    }

    pub(super) fn finish(mut self) -> Diff {
        self.close_file();
        self.diff
    }

    fn close_file(&mut self) {
        let Some(file) = self.file.take().map(OpenFile::close) else { return };
        self.diff.additions += file.additions;
        self.diff.deletions += file.deletions;
        if self.diff.files.len() < MAX_FILES {
            self.diff.files.push(file);
        } else {
            self.diff.hidden_files += 1;
        }
    }
}

impl OpenFile {
    fn new(names: &str, style: Style) -> Self {
        let file = FileDiff {
            id: String::new(),
            path: String::new(),
            link: String::new(),
            old_path: None,
            change: Change::Modified,
            modes: None,
            is_binary: false,
            additions: 0,
            deletions: 0,
            rows: Vec::new(),
            is_cut: false,
            is_whitespace_only: false,
        };
        Self {
            file,
            style,
            names: Names { header: path_in_header(names), ..Names::default() },
            old_mode: None,
            is_in_header: true,
            old: Counter::default(),
            new: Counter::default(),
            removed: Vec::new(),
            added: Vec::new(),
            line_count: 0,
        }
    }

    /// Reads a line of a hunk; false if it is none.
    fn hunk_line(&mut self, line: &str, lines_left: &mut usize) -> bool {
        // "\ No newline at end of file", possibly translated.
        if line.starts_with('\\') && !self.is_in_header {
            self.end_without_newline();
            return true;
        }
        if self.old.left == 0 && self.new.left == 0 {
            return false;
        }
        let (kind, text) = match line.as_bytes().first() {
            // Mail programs drop the space of an empty line.
            None => (Kind::Context, line),
            Some(b' ') => (Kind::Context, &line[1..]),
            Some(b'-') => (Kind::Removed, &line[1..]),
            Some(b'+') => (Kind::Added, &line[1..]),
            Some(_) => {
                (self.old.left, self.new.left) = (0, 0);
                return false;
            }
        };
        self.file.additions += u64::from(kind == Kind::Added);
        self.file.deletions += u64::from(kind == Kind::Removed);
        let old = (kind != Kind::Added).then(|| self.old.advance());
        let new = (kind != Kind::Removed).then(|| self.new.advance());
        if self.line_count >= MAX_FILE_LINES || *lines_left == 0 {
            self.file.is_cut = true;
        }
        if !self.file.is_cut {
            self.line_count += 1;
            *lines_left -= 1;
            let text = shown(text);
            let side = |number: u64| Side { number, kind, text: text.clone(), is_unended: false };
            self.push(old.map(side), new.map(side));
        }
        true
    }

    fn push(&mut self, old: Option<Side>, new: Option<Side>) {
        if self.style == Style::Unified {
            self.file.rows.push(Row { heading: None, old, new });
            return;
        }
        match (old, new) {
            (Some(removed), None) => {
                if !self.added.is_empty() {
                    self.pair();
                }
                self.removed.push(removed);
            }
            (None, Some(added)) => self.added.push(added),
            (old, new) => {
                self.pair();
                self.file.rows.push(Row { heading: None, old, new });
            }
        }
    }

    /// Puts removed and added lines side by side.
    fn pair(&mut self) {
        let count = self.removed.len().max(self.added.len());
        let (mut removed, mut added) = (self.removed.drain(..), self.added.drain(..));
        let rows = (0..count).map(|_| Row { heading: None, old: removed.next(), new: added.next() });
        self.file.rows.extend(rows);
    }

    fn end_without_newline(&mut self) {
        if self.file.is_cut {
            return;
        }
        // It is about the line before.
        if let Some(side) = self.added.last_mut().or(self.removed.last_mut()) {
            side.is_unended = true;
        } else if let Some(row) = self.file.rows.last_mut() {
            for side in [&mut row.old, &mut row.new].into_iter().flatten() {
                side.is_unended = true;
            }
        }
    }

    /// Reads a line outside of hunks.
    fn header_line(&mut self, line: &str) {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            self.begin_hunk(hunk, line);
        }
        if !self.is_in_header {
            return;
        }
        if line.starts_with("Binary files ") || line == "GIT binary patch" {
            self.file.is_binary = true;
            self.is_in_header = false;
        } else if let Some(path) = line.strip_prefix("--- ") {
            self.names.old = path_of_side(path, b"a/");
        } else if let Some(path) = line.strip_prefix("+++ ") {
            self.names.new = path_of_side(path, b"b/");
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            self.old_mode = Some(shown(mode));
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            self.file.modes = self.old_mode.take().map(|old| (old, shown(mode)));
        } else if line.starts_with("new file mode ") {
            self.file.change = Change::Added;
        } else if line.starts_with("deleted file mode ") {
            self.file.change = Change::Deleted;
        } else {
            self.header_line_of_move(line);
        }
    }

    fn header_line_of_move(&mut self, line: &str) {
        for (start, change) in [("rename ", Change::Renamed), ("copy ", Change::Copied)] {
            let Some(rest) = line.strip_prefix(start) else { continue };
            if let Some(path) = rest.strip_prefix("from ") {
                (self.file.change, self.names.from) = (change, Some(unquoted(path)));
            } else if let Some(path) = rest.strip_prefix("to ") {
                (self.file.change, self.names.to) = (change, Some(unquoted(path)));
            }
        }
    }

    /// `hunk` is `-1,2 +3,4 @@`, and the whole line is its heading.
    fn begin_hunk(&mut self, hunk: &str, line: &str) {
        let mut parts = hunk.split(' ');
        let mut counter = |sign: char| parts.next().and_then(|part| Counter::parse(part.strip_prefix(sign)?));
        let (Some(old), Some(new)) = (counter('-'), counter('+')) else { return };
        (self.old, self.new, self.is_in_header) = (old, new, false);
        self.pair();
        if !self.file.is_cut {
            self.file.rows.push(Row { heading: Some(shown(line)), old: None, new: None });
        }
    }

    fn close(mut self) -> FileDiff {
        self.pair();
        let Names { header, old, new, from, to } = self.names;
        let path = to.or(new).or(old).unwrap_or(header);
        let is_moved = matches!(self.file.change, Change::Renamed | Change::Copied);
        FileDiff {
            id: anchor(&path),
            link: encode_path(&path),
            path: String::from_utf8_lossy(&path).into_owned(),
            old_path: from.filter(|_| is_moved).map(|from| String::from_utf8_lossy(&from).into_owned()),
            ..self.file
        }
    }
}

impl Counter {
    /// Parses `12,3`, or `12` for one line.
    fn parse(text: &str) -> Option<Self> {
        let (number, left) = text.split_once(',').unwrap_or((text, "1"));
        // Beyond any file, and far from overflows.
        let parse = |text: &str| text.parse::<u32>().ok().map(u64::from);
        Some(Self { number: parse(number)?, left: parse(left)? })
    }

    /// Returns the number of the line, and goes on.
    fn advance(&mut self) -> u64 {
        let number = self.number;
        (self.number, self.left) = (number + 1, self.left.saturating_sub(1));
        number
    }
}

/// A line, at most as long as lines are shown. The end of a line under Windows is left out.
fn shown(text: &str) -> String {
    let is_long = text.len() > MAX_LINE_BYTES;
    let kept = &text[..text.floor_char_boundary(MAX_LINE_BYTES)];
    let mut kept = kept.strip_suffix('\r').unwrap_or(kept).replace('\r', "\u{240d}");
    if is_long {
        kept.push('\u{2026}');
    }
    kept
}

/// Returns the path in `a/path b/path`, for a file whose path did not change.
fn path_in_header(names: &str) -> Vec<u8> {
    if let Some(quoted) = names.strip_prefix('"') {
        return without_prefix(&unescaped(quoted), b"a/");
    }
    let bytes = names.as_bytes();
    // Paths can have spaces, but both are equally long.
    let middle = bytes.len() / 2;
    let second = match bytes.get(middle) {
        Some(b' ') => &bytes[middle + 1..],
        _ => bytes,
    };
    without_prefix(second, b"b/")
}

/// Returns the path in a line `---` or `+++`; `None` if the file is not on this side.
fn path_of_side(text: &str, prefix: &[u8]) -> Option<Vec<u8>> {
    match text.strip_prefix('"') {
        Some(quoted) => Some(without_prefix(&unescaped(quoted), prefix)),
        // A tab ends a path with spaces.
        None => match text.split('\t').next() {
            None | Some("/dev/null") => None,
            Some(path) => Some(without_prefix(path.as_bytes(), prefix)),
        },
    }
}

fn without_prefix(path: &[u8], prefix: &[u8]) -> Vec<u8> {
    path.strip_prefix(prefix).unwrap_or(path).to_vec()
}

fn unquoted(text: &str) -> Vec<u8> {
    text.strip_prefix('"').map_or_else(|| text.as_bytes().to_vec(), unescaped)
}

/// Returns the bytes of a text in quotes, whose first one has been read, up to the second.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    loop {
        rest = match rest {
            [] | [b'"', ..] => return bytes,
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest
            }
            [b'\\', escape, rest @ ..] => {
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}
