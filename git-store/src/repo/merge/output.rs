//! Parses the output of `merge-tree -z`: the tree, the sides of conflicting files, then messages.

use git2::Oid;

use super::{
    conflict_kind::FileSide,
    conflicts::{Collector, Conflicts, Note},
};
use crate::{repo::objects::full_id, types::error::GitError};

/// Longest item: a path, or a message with several.
const MAX_ITEM_BYTES: usize = 64 << 10;
/// Paths of a message that are kept.
const MAX_NOTE_PATHS: usize = 8;

/// Reads output in pieces of any size.
#[derive(Debug)]
pub(super) struct OutputParser {
    tree: Option<Oid>,
    conflicts: Collector,
    item: Vec<u8>,
    expected: Expected,
    note: Note,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Tree,
    /// A side of a file, or the empty item before the messages.
    Side,
    PathCount,
    /// This many paths.
    Path(u64),
    Kind,
    Text,
}

impl Default for OutputParser {
    fn default() -> Self {
        let (conflicts, note) = (Collector::default(), Note::default());
        Self { tree: None, conflicts, item: Vec::new(), expected: Expected::Tree, note }
    }
}

impl OutputParser {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            self.extend(&rest[..end])?;
            rest = &rest[end + 1..];
            let item = std::mem::take(&mut self.item);
            self.expected = self.add(item).ok_or_else(unexpected)?;
        }
        self.extend(rest)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        // The end of a long message is not needed.
        if matches!(self.expected, Expected::Text) {
            let room = MAX_ITEM_BYTES.saturating_sub(self.item.len());
            self.item.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(());
        }
        if self.item.len() + bytes.len() > MAX_ITEM_BYTES {
            return Err(GitError::TooLarge { what: "a path in bytes", limit: MAX_ITEM_BYTES as u64 });
        }
        self.item.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds an item. Returns what is next; `None` if the item is malformed.
    fn add(&mut self, item: Vec<u8>) -> Option<Expected> {
        Some(match self.expected {
            Expected::Tree => {
                self.tree = Some(full_id(&item)?);
                Expected::Side
            }
            Expected::Side if item.is_empty() => Expected::PathCount,
            Expected::Side => {
                self.add_side(&item)?;
                Expected::Side
            }
            Expected::PathCount => {
                self.note = Note::default();
                Self::after_paths(std::str::from_utf8(&item).ok()?.parse().ok()?)
            }
            Expected::Path(left) => {
                if self.note.paths.len() < MAX_NOTE_PATHS {
                    self.note.paths.push(item);
                }
                Self::after_paths(left - 1)
            }
            Expected::Kind => {
                self.note.kind = item;
                Expected::Text
            }
            Expected::Text => {
                self.note.text = item.trim_ascii_end().to_vec();
                self.conflicts.note(std::mem::take(&mut self.note));
                Expected::PathCount
            }
        })
    }

    fn after_paths(left: u64) -> Expected {
        if left == 0 { Expected::Kind } else { Expected::Path(left) }
    }

    /// Parses `<mode> <id> <stage>\t<path>`.
    fn add_side(&mut self, item: &[u8]) -> Option<()> {
        let tab = item.iter().position(|byte| *byte == b'\t')?;
        let mut parts = std::str::from_utf8(&item[..tab]).ok()?.split(' ');
        let (mode, id, stage) = (parts.next()?, parts.next()?, parts.next()?);
        let mode = u32::from_str_radix(mode, 8).ok()?;
        let side = stage.parse::<usize>().ok()?.checked_sub(1).filter(|side| *side < 3)?;
        self.conflicts.add(item[tab + 1..].to_vec(), side, FileSide { mode, id: full_id(id.as_bytes())? });
        Some(())
    }

    /// Returns the tree. That of a merge with conflicts has marks in its files.
    pub(super) fn tree(&self) -> Result<Oid, GitError> {
        self.tree.ok_or_else(unexpected)
    }

    /// Returns the conflicts. After the last message git may explain what to do about submodules.
    pub(super) fn conflicts(self) -> Result<Conflicts, GitError> {
        let is_complete = matches!(self.expected, Expected::PathCount);
        if is_complete { Ok(self.conflicts.finish()) } else { Err(unexpected()) }
    }
}

fn unexpected() -> GitError {
    GitError::Internal("git printed a merge in an unknown form".to_owned())
}
