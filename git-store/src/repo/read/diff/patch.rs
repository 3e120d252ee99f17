//! Parses the text of a diff. The header of a hunk says how many lines follow, so no line of a file
//! can look like a header. Paths are not parsed: sections come in the order of the files.

use std::ops::ControlFlow;

use super::{
    ChangeStatus, ChangedFile, FilePatch, Hunk, HunkLine, LineKind, MAX_FILE_LINES, MAX_LINE_BYTES,
    MAX_LINE_BYTES_OF_ALL, MAX_LINES,
};

/// Bytes of a line that are read at least: headers of hunks are shorter.
const MIN_READ_BYTES: usize = 256;

/// Limits on the lines to keep.
#[derive(Clone, Copy)]
pub(super) struct PatchLimits {
    pub(super) lines_of_file: usize,
    pub(super) lines: usize,
    pub(super) line_bytes: usize,
    pub(super) bytes: usize,
}

impl PatchLimits {
    pub(super) const DEFAULT: Self = Self {
        lines_of_file: MAX_FILE_LINES,
        lines: MAX_LINES,
        line_bytes: MAX_LINE_BYTES,
        bytes: MAX_LINE_BYTES_OF_ALL,
    };
}

/// Reads text in pieces of any size.
pub(super) struct PatchParser {
    /// Sections of each file: two if its type changed.
    sections: Vec<u8>,
    patches: Vec<FilePatch>,
    limits: PatchLimits,
    /// Index of the file after the current one.
    next: usize,
    /// Sections of the current file that follow.
    sections_left: u8,
    /// Lines of the current file so far.
    lines_of_file: usize,
    /// Lines of the current hunk that follow: in the old and in the new file.
    old_left: u32,
    new_left: u32,
    line: Vec<u8>,
    is_line_cut: bool,
}

impl PatchParser {
    /// For the text of these files, which are the first of the diff.
    pub(super) fn new(files: &[ChangedFile], limits: PatchLimits) -> Self {
        let sections = files.iter().map(|file| if file.status == ChangeStatus::TypeChanged { 2 } else { 1 });
        Self {
            sections: sections.collect(),
            patches: vec![FilePatch::default(); files.len()],
            limits,
            next: 0,
            sections_left: 0,
            lines_of_file: 0,
            old_left: 0,
            new_left: 0,
            line: Vec::new(),
            is_line_cut: false,
        }
    }

    /// Parses a piece. Breaks when the rest would not be kept.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let is_cut = std::mem::take(&mut self.is_line_cut);
            self.add(&line, is_cut)?;
            // Keeps its capacity for the next line.
            self.line = line;
            self.line.clear();
        }
        self.extend(rest);
        ControlFlow::Continue(())
    }

    /// Returns the patches. Those of which a part is missing are marked, unless the text is
    /// `complete`.
    pub(super) fn finish(mut self, complete: bool) -> Vec<FilePatch> {
        if !complete {
            // The current one may have more lines, and the rest has not begun.
            let first = self.next.saturating_sub(1);
            self.patches[first..].iter_mut().for_each(|patch| patch.is_truncated = true);
        }
        self.patches
    }

    /// Keeps one byte more than a line may have, for the side of the line.
    fn extend(&mut self, bytes: &[u8]) {
        let room = (self.limits.line_bytes.max(MIN_READ_BYTES) + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.is_line_cut |= bytes.len() > room;
    }

    fn add(&mut self, line: &[u8], is_cut: bool) -> ControlFlow<()> {
        if self.old_left > 0 || self.new_left > 0 {
            return self.add_line(line, is_cut);
        }
        if line.starts_with(b"diff --git ") {
            return self.begin_section();
        }
        match line.first() {
            Some(b'@') => {
                if let Some(hunk) = hunk_of(line) {
                    (self.old_left, self.new_left) = (hunk.old_lines, hunk.new_lines);
                    self.add_hunk(hunk);
                }
            }
            // `\ No newline at end of file`, behind the last line of a hunk.
            Some(b'\\') => self.end_without_newline(),
            // Other lines of the header: the list of files has what they say.
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn begin_section(&mut self) -> ControlFlow<()> {
        if self.sections_left > 0 {
            self.sections_left -= 1;
            return ControlFlow::Continue(());
        }
        let Some(sections) = self.sections.get(self.next) else {
            // The listed files are complete.
            self.next = self.sections.len() + 1;
            return ControlFlow::Break(());
        };
        self.sections_left = sections - 1;
        self.next += 1;
        self.lines_of_file = 0;
        ControlFlow::Continue(())
    }

    fn current(&mut self) -> Option<&mut FilePatch> {
        self.next.checked_sub(1).and_then(|at| self.patches.get_mut(at))
    }

    fn add_hunk(&mut self, hunk: Hunk) {
        if let Some(patch) = self.current().filter(|patch| !patch.is_truncated) {
            patch.hunks.push(hunk);
        }
    }

    /// Adds a line of the current hunk.
    fn add_line(&mut self, line: &[u8], is_cut: bool) -> ControlFlow<()> {
        let Some((kind, text)) = split_line(line) else {
            self.end_without_newline();
            return ControlFlow::Continue(());
        };
        self.old_left = self.old_left.saturating_sub(u32::from(kind != LineKind::Added));
        self.new_left = self.new_left.saturating_sub(u32::from(kind != LineKind::Deleted));
        let (limits, lines_of_file) = (self.limits, self.lines_of_file);
        let is_cut = is_cut || text.len() > limits.line_bytes;
        let text = &text[..text.len().min(limits.line_bytes)];
        self.lines_of_file += 1;
        let Some(patch) = self.current() else { return ControlFlow::Continue(()) };
        let is_full = limits.lines == 0 || limits.bytes < text.len();
        if patch.is_truncated || lines_of_file >= limits.lines_of_file || is_full {
            patch.is_truncated = true;
            return if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if let Some(hunk) = patch.hunks.last_mut() {
            hunk.lines.push(HunkLine { kind, text: text.to_vec(), has_newline: true });
        }
        // Lines after it would have no place for the rest of this one.
        patch.is_truncated |= is_cut;
        self.limits.lines -= 1;
        self.limits.bytes -= text.len();
        ControlFlow::Continue(())
    }

    fn end_without_newline(&mut self) {
        let last = self.current().filter(|patch| !patch.is_truncated).and_then(|patch| patch.hunks.last_mut());
        if let Some(line) = last.and_then(|hunk| hunk.lines.last_mut()) {
            line.has_newline = false;
        }
    }
}

/// Splits a line of a hunk. Returns `None` for the remark that the line before it has no line feed.
pub(super) fn split_line(line: &[u8]) -> Option<(LineKind, &[u8])> {
    match line.split_first() {
        Some((b'+', text)) => Some((LineKind::Added, text)),
        Some((b'-', text)) => Some((LineKind::Deleted, text)),
        Some((b'\\', _)) => None,
        Some((_, text)) => Some((LineKind::Context, text)),
        None => Some((LineKind::Context, line)),
    }
}

/// Parses `@@ -<start>[,<lines>] +<start>[,<lines>] @@[ <section>]`.
pub(super) fn hunk_of(line: &[u8]) -> Option<Hunk> {
    let rest = line.strip_prefix(b"@@ -")?;
    let end = rest.windows(3).position(|three| three == b" @@")?;
    let ranges = std::str::from_utf8(&rest[..end]).ok()?;
    let (old, new) = ranges.split_once(" +")?;
    let ((old_start, old_lines), (new_start, new_lines)) = (range_of(old)?, range_of(new)?);
    let section = rest[end + 3..].strip_prefix(b" ").unwrap_or_default().to_vec();
    Some(Hunk { old_start, old_lines, new_start, new_lines, section, lines: Vec::new() })
}

fn range_of(text: &str) -> Option<(u32, u32)> {
    match text.split_once(',') {
        Some((start, lines)) => Some((start.parse().ok()?, lines.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use git2::Oid;

    use super::*;

    fn files(statuses: &[ChangeStatus]) -> Vec<ChangedFile> {
        let file = |status: &ChangeStatus| ChangedFile {
            status: *status,
            path: b"x".to_vec(),
            old_path: None,
            old_mode: 0,
            new_mode: 0,
            old_id: Oid::ZERO_SHA1,
            new_id: Oid::ZERO_SHA1,
            similarity: 0,
            additions: 0,
            deletions: 0,
            is_binary: false,
        };
        statuses.iter().map(file).collect()
    }

    fn parse(statuses: &[ChangeStatus], limits: PatchLimits, text: &[u8], piece: usize) -> (Vec<FilePatch>, bool) {
        let mut parser = PatchParser::new(&files(statuses), limits);
        let complete = text.chunks(piece).all(|piece| parser.feed(piece).is_continue());
        (parser.finish(complete), complete)
    }

    /// One line as git prints it, with `$` for a line without a line feed.
    fn shown(patch: &FilePatch) -> Vec<String> {
        let line = |line: &HunkLine| {
            let kind = match line.kind {
                LineKind::Context => ' ',
                LineKind::Added => '+',
                LineKind::Deleted => '-',
            };
            let end = if line.has_newline { "" } else { "$" };
            format!("{kind}{}{end}", String::from_utf8_lossy(&line.text))
        };
        patch.hunks.iter().flat_map(|hunk| hunk.lines.iter().map(line)).collect()
    }

    const TEXT: &[u8] = b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n\
        @@ -1,3 +1,3 @@ fn \xff()\n one\n-diff --git a/y b/y\n+@@ -1 +1 @@\n-- two\n++ two\n\
        @@ -9 +9,0 @@\n-last\n\\ No newline at end of file\n\
        diff --git \"a/t\\n\" \"b/t\\n\"\ndeleted file mode 120000\nindex 1..0\n--- \"a/t\\n\"\n+++ /dev/null\n\
        @@ -1 +0,0 @@\n-target\n\\ No newline at end of file\n\
        diff --git \"a/t\\n\" \"b/t\\n\"\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ \"b/t\\n\"\n\
        @@ -0,0 +1,2 @@\n+\r\n+\n\
        diff --git a/m b/m\nold mode 100644\nnew mode 100755\n\
        diff --git a/b b/b\nindex 1..2\nBinary files a/b and b/b differ\n\
        diff --git a/n b/n\nindex 1..2\n--- a/n\n+++ b/n\n\
        @@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
    const STATUSES: [ChangeStatus; 5] = [
        ChangeStatus::Changed,
        ChangeStatus::TypeChanged,
        ChangeStatus::Changed,
        ChangeStatus::Changed,
        ChangeStatus::Changed,
    ];

    #[test]
    fn lines_that_look_like_headers_are_lines() {
        for piece in [1, 7, 10_000] {
            let (patches, complete) = parse(&STATUSES, PatchLimits::DEFAULT, TEXT, piece);
            assert!(complete);
            let first = &patches[0];
            assert_eq!(
                shown(first),
                [" one", "-diff --git a/y b/y", "+@@ -1 +1 @@", "-- two", "++ two", "-last$"],
                "{piece}"
            );
            let hunk = &first.hunks[0];
            assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (1, 3, 1, 3));
            assert_eq!(hunk.section, b"fn \xff()");
            let hunk = &first.hunks[1];
            assert_eq!((hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines), (9, 1, 9, 0));
            assert!(hunk.section.is_empty());
            assert_eq!(shown(&patches[1]), ["-target$", "+\r", "+"], "both sections of another type");
            assert!(patches[2].hunks.is_empty() && patches[3].hunks.is_empty());
            assert_eq!(shown(&patches[4]), ["-a$", "+b$"]);
            assert!(patches.iter().all(|patch| !patch.is_truncated));
        }
    }

    #[test]
    fn what_exceeds_a_limit_is_left_out_and_marked() {
        let limits = PatchLimits::DEFAULT;
        let marks = |patches: &[FilePatch]| patches.iter().map(|patch| patch.is_truncated).collect::<Vec<_>>();
        // Lines of a file: later files are not affected.
        let (patches, complete) = parse(&STATUSES, PatchLimits { lines_of_file: 2, ..limits }, TEXT, 5);
        assert!(complete);
        assert_eq!(marks(&patches), [true, true, false, false, false]);
        assert_eq!(shown(&patches[0]), [" one", "-diff --git a/y b/y"]);
        assert_eq!(shown(&patches[4]), ["-a$", "+b$"]);
        // Lines and bytes of all files: reading stops.
        for limits in [PatchLimits { lines: 7, ..limits }, PatchLimits { bytes: 50, ..limits }] {
            let (patches, complete) = parse(&STATUSES, limits, TEXT, 5);
            assert!(!complete);
            assert!(marks(&patches)[1..].iter().all(|is_truncated| *is_truncated), "{patches:?}");
        }
        // A long line: the rest of its file is missing.
        let (patches, complete) = parse(&STATUSES, PatchLimits { line_bytes: 4, ..limits }, TEXT, 5);
        assert!(complete);
        assert_eq!(shown(&patches[0]), [" one", "-diff"]);
        assert_eq!(marks(&patches), [true, true, false, false, false]);
    }

    #[test]
    fn files_that_are_not_listed_end_the_reading() {
        let (patches, complete) = parse(&STATUSES[..1], PatchLimits::DEFAULT, TEXT, 5);
        assert!(!complete);
        assert_eq!((shown(&patches[0]).len(), patches[0].is_truncated), (6, false));
        assert!(parse(&[], PatchLimits::DEFAULT, TEXT, 5).0.is_empty());
    }

    mod any_bytes {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn nothing_panics(
                text in "(diff --git a\n|@@ -[0-9]{1,2},[0-9] \\+[0-9] @@( x)?\n|[-+ \\\\@]?[a-z]{0,3}\n|\n){0,40}",
                piece in 1usize..40,
            ) {
                let limits = PatchLimits { lines_of_file: 5, lines: 9, line_bytes: 2, bytes: 12 };
                let (patches, _) = parse(&STATUSES, limits, text.as_bytes(), piece);
                prop_assert!(patches.iter().flat_map(|patch| &patch.hunks).all(|hunk| hunk.lines.len() <= 5));
            }
        }
    }
}
