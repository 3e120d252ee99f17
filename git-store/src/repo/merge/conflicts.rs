//! Conflicting files, collected from what git prints about a merge.

use std::collections::HashMap;

use git2::Oid;

use super::{
    MAX_CONFLICT_FILES,
    conflict_kind::{ConflictKind, FileSide},
};

/// Longest message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 1000;

/// The conflicts of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// The files by path, at most [`MAX_CONFLICT_FILES`].
    pub files: Vec<ConflictFile>,
    /// Number of conflicting files.
    pub total: usize,
    /// The commit that conflicts in a rebase; `None` for a merge or revert.
    pub commit: Option<Oid>,
}

/// A file that conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictFile {
    /// Its path.
    pub path: Vec<u8>,
    /// Why.
    pub kind: ConflictKind,
    /// What git says about it, for people; may be empty.
    pub message: Vec<u8>,
    /// The file in the merge base. A file that both sides renamed may have another path there.
    pub base: Option<FileSide>,
    /// The file in the commit that is merged into.
    pub ours: Option<FileSide>,
    /// The file in the commit that is merged.
    pub theirs: Option<FileSide>,
    /// The lines that conflict, at most [`super::MAX_CONFLICT_RANGES`]. None if this is not text,
    /// if a side has no file, or if the file is too large.
    pub ranges: Vec<ConflictRange>,
}

/// Lines that conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictRange {
    /// In the merge base.
    pub base: LineRange,
    /// In the commit that is merged into.
    pub ours: LineRange,
    /// In the commit that is merged.
    pub theirs: LineRange,
}

/// Some lines of a file, as git numbers them in hunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The first line, from 1. If there are none, the line before; 0 at the start of the file.
    pub line: u32,
    /// Number of lines.
    pub count: u32,
}

/// A message of git about a merge.
#[derive(Debug, Default)]
pub(super) struct Note {
    pub(super) paths: Vec<Vec<u8>>,
    pub(super) kind: Vec<u8>,
    pub(super) text: Vec<u8>,
}

/// Collects conflicting files.
#[derive(Debug, Default)]
pub(super) struct Collector {
    files: Vec<Collected>,
    by_path: HashMap<Vec<u8>, usize>,
    last_path: Vec<u8>,
    total: usize,
}

#[derive(Debug, Default)]
struct Collected {
    /// The path to show: git moves a file that is in the way of another.
    path: Vec<u8>,
    kind: Option<ConflictKind>,
    message: Vec<u8>,
    /// Base, ours and theirs.
    sides: [Option<FileSide>; 3],
}

impl Collector {
    /// Adds a side, from 0, of a file. git prints those of a file one after the other.
    pub(super) fn add(&mut self, path: Vec<u8>, side: usize, file: FileSide) {
        if self.total == 0 || path != self.last_path {
            self.total += 1;
            self.last_path.clone_from(&path);
        }
        let at = match self.by_path.get(&path) {
            Some(at) => *at,
            None if self.files.len() < MAX_CONFLICT_FILES => self.push(path),
            None => return,
        };
        self.files[at].sides[side] = Some(file);
    }

    fn push(&mut self, path: Vec<u8>) -> usize {
        self.by_path.insert(path.clone(), self.files.len());
        self.files.push(Collected { path, ..Collected::default() });
        self.files.len() - 1
    }

    /// Adds what git says about files.
    pub(super) fn note(&mut self, mut note: Note) {
        if !note.kind.starts_with(b"CONFLICT") {
            return;
        }
        note.text.truncate(MAX_MESSAGE_BYTES);
        let kind = ConflictKind::of_message(&note.kind);
        let mut found: Vec<_> = note.paths.iter().filter_map(|path| self.by_path.get(path).copied()).collect();
        // A folder that was renamed to several places has no sides, nor has a file that git merged
        // before it found another in its way. Other files without sides do not conflict after all.
        if found.is_empty()
            && matches!(kind, Some(ConflictKind::DirectoryRename | ConflictKind::RenameRename))
            && self.total < MAX_CONFLICT_FILES
            && let Some(path) = note.paths.first()
        {
            self.total += 1;
            found.push(self.push(path.clone()));
        }
        // The path that git could not use, instead of those that it chose.
        let shown = match kind {
            Some(ConflictKind::DirectoryFile) => note.paths.get(1),
            Some(ConflictKind::Mode) => note.paths.first(),
            _ => None,
        };
        for at in found {
            let file = &mut self.files[at];
            if file.kind < kind || file.message.is_empty() {
                file.message.clone_from(&note.text);
            }
            file.kind = file.kind.max(kind);
            if let Some(shown) = shown {
                file.path.clone_from(shown);
            }
        }
    }

    pub(super) fn finish(mut self) -> Conflicts {
        let is_complete = self.total == self.files.len();
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        self.files.dedup_by(|next, first| first.path == next.path && first.absorb(next));
        let files: Vec<_> = self.files.into_iter().map(Collected::finish).collect();
        let total = if is_complete { files.len() } else { self.total };
        Conflicts { files, total, commit: None }
    }
}

impl Collected {
    /// Adds another file that is shown at the same path. Returns true.
    fn absorb(&mut self, other: &Self) -> bool {
        for (side, other) in self.sides.iter_mut().zip(other.sides) {
            *side = side.or(other);
        }
        self.kind = self.kind.max(other.kind);
        true
    }

    fn finish(self) -> ConflictFile {
        let [base, ours, theirs] = self.sides;
        let kind = self.kind.unwrap_or_else(|| ConflictKind::of_sides(base, ours, theirs));
        ConflictFile { path: self.path, kind, message: self.message, base, ours, theirs, ranges: Vec::new() }
    }
}
