//! Kinds of tree entries, and the bytes of blobs.

use git2::{ObjectType, Oid};

use crate::{
    repo::{deltas::LoadCheck, objects},
    types::error::GitError,
};

/// Bytes of a file in which git looks for a zero byte.
const BINARY_PROBE_BYTES: usize = 8000;

/// The kind of a tree entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; its content is the path of its target.
    Symlink,
    /// A submodule: a commit of another repository.
    Submodule,
}

impl EntryKind {
    /// Returns the kind for a mode.
    #[must_use]
    pub fn of(mode: i32) -> Self {
        match mode & 0o170_000 {
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o160_000 => Self::Submodule,
            _ => Self::File,
        }
    }
}

/// Returns the size of a blob, and its content unless that exceeds `limit` or is a delta too large
/// to load. Reads headers first, so a large blob is never loaded.
pub fn read_blob(loads: &LoadCheck<'_>, id: Oid, limit: u64) -> Result<(u64, Option<Vec<u8>>), GitError> {
    let repo = loads.repo();
    let (kind, size) = objects::header(repo, id)?;
    if kind != ObjectType::Blob {
        return Err(GitError::PathNotFound);
    }
    if size > limit || !loads.is_loadable(id)? {
        return Ok((size, None));
    }
    Ok((size, Some(repo.find_blob(id)?.content().to_vec())))
}

/// Returns whether git takes a file for binary: it has a zero byte near its start.
pub(in crate::repo) fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PROBE_BYTES)].contains(&0)
}
