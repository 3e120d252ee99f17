//! Reads a file by `ref/path`, where the ref may contain slashes, or by both of them.

use git2::{Oid, Repository};

use super::{
    contents::{MAX_INLINE_BYTES, find},
    entry::{EntryKind, read_blob},
};
use crate::{
    repo::{
        deltas::{DeltaCost, LoadCheck},
        objects,
        revision::Revision,
    },
    types::{error::GitError, path::TreePath},
};

const MAX_INPUT: usize = 8192;

/// A file found by its ref and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// The commit of the ref.
    pub commit: Oid,
    /// The id of the blob.
    pub blob: Oid,
    /// Size of the blob in bytes.
    pub size: u64,
    /// The path from the root of the tree.
    pub path: Vec<u8>,
    /// The last component of the path.
    pub name: Vec<u8>,
    /// The content; `None` above 1 MiB or for a delta too large to load. Use
    /// [`Git::cat_file`](crate::git::command::Git::cat_file) then.
    pub content: Option<Vec<u8>>,
    /// Memory that git needs to write it, in bytes; 0 if the content is here, or is stored whole
    /// and streamed.
    pub delta_bytes: u64,
}

/// Finds the file named by `ref_and_path`. The ref is the longest prefix, up to a slash, that is a
/// [`Revision`]. For a symbolic link, returns the target's path as text.
pub fn raw(repo: &Repository, ref_and_path: &[u8]) -> Result<RawFile, GitError> {
    if ref_and_path.len() > MAX_INPUT {
        return Err(GitError::PathNotFound);
    }
    let (commit, path) = split(repo, ref_and_path)?;
    file(repo, commit, path)
}

/// Finds the file at a path of a revision. Otherwise like [`raw`].
pub fn raw_at(repo: &Repository, revision: &Revision, path: &[u8]) -> Result<RawFile, GitError> {
    file(repo, revision.resolve(repo)?.commit, path)
}

fn file(repo: &Repository, commit: Oid, path: &[u8]) -> Result<RawFile, GitError> {
    let path = TreePath::literal(path).map_err(|_| GitError::PathNotFound)?;
    let root = objects::tree_of(repo, commit)?;
    let (mode, blob) = find(repo, &root, &path)?.ok_or(GitError::PathNotFound)?;
    if !matches!(EntryKind::of(mode), EntryKind::File | EntryKind::Symlink) {
        return Err(GitError::PathNotFound);
    }
    let (size, content) = read_blob(&LoadCheck::new(repo), blob, MAX_INLINE_BYTES)?;
    let delta_bytes = if content.is_some() { 0 } else { DeltaCost::of(repo, blob)?.bytes };
    let (name, path) = (path.name().to_vec(), path.as_bytes().to_vec());
    Ok(RawFile { commit, blob, size, path, name, content, delta_bytes })
}

/// Splits `text` after the revision and returns its commit and the path.
fn split<'text>(repo: &Repository, text: &'text [u8]) -> Result<(Oid, &'text [u8]), GitError> {
    let slashes: Vec<usize> = text.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
    for at in slashes.into_iter().rev().filter(|at| *at > 0) {
        match Revision::parse(&text[..at]).and_then(|revision| revision.resolve(repo)) {
            Ok(resolved) => return Ok((resolved.commit, &text[at + 1..])),
            Err(GitError::RevisionNotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Err(GitError::RevisionNotFound)
}
