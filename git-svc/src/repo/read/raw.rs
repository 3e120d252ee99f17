//! The bytes of one file, found by a branch, tag or commit and a path that follow each other without a mark between them.

use git2::{Oid, Repository};

use super::{
    contents::{MAX_INLINE_BYTES, find},
    entry::{EntryKind, read_blob},
};
use crate::{
    repo::{
        refs::lookup,
        revision::{commit_by_id, object_id, peel},
    },
    types::{
        error::GitError,
        name::{BranchName, RefName},
        path::TreePath,
    },
};

/// The longest `ref/path` that is looked at.
const MAX_INPUT: usize = 8192;

/// A file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// The commit it was found in.
    pub commit: Oid,
    /// The blob.
    pub blob: Oid,
    /// Bytes of the blob.
    pub size: u64,
    /// Its path from the root.
    pub path: Vec<u8>,
    /// The last component of its path.
    pub name: Vec<u8>,
    /// Its bytes; absent above 1 MiB: stream them with `Git::cat_file`.
    pub content: Option<Vec<u8>>,
}

/// The file that `ref_and_path` names: the longest leading run of parts that is a branch or tag, else a first part of 7 to 40
/// hexadecimal digits that is a commit, and then the path. A symbolic link is sent as its target's text.
///
/// Errors: `RevisionNotFound`, `PathNotFound`.
pub fn raw(repo: &Repository, ref_and_path: &[u8]) -> Result<RawFile, GitError> {
    if ref_and_path.len() > MAX_INPUT {
        return Err(GitError::PathNotFound);
    }
    let (commit, path) = split(repo, ref_and_path)?;
    let path = TreePath::literal(path).map_err(|_| GitError::PathNotFound)?;
    let root = repo.find_commit(commit)?.tree()?;
    let (mode, blob) = find(repo, &root, &path)?.ok_or(GitError::PathNotFound)?;
    if !matches!(EntryKind::of(mode), EntryKind::File | EntryKind::Symlink) {
        return Err(GitError::PathNotFound);
    }
    let (size, content) = read_blob(repo, &repo.odb()?, blob, MAX_INLINE_BYTES)?;
    Ok(RawFile { commit, blob, size, name: path.name().to_vec(), path: path.as_bytes().to_vec(), content })
}

/// Finds where the ref ends; returns its commit and the rest.
fn split<'text>(repo: &Repository, text: &'text [u8]) -> Result<(Oid, &'text [u8]), GitError> {
    let slashes: Vec<usize> = text.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
    for at in slashes.iter().rev() {
        let (name, path) = (&text[..*at], &text[at + 1..]);
        for full in names(name) {
            if let Some(target) = lookup(repo, &full)?
                && let Some(commit) = peel(repo, target)?
            {
                return Ok((commit, path));
            }
        }
    }
    let first = slashes.first().copied().ok_or(GitError::RevisionNotFound)?;
    let commit = match object_id(&text[..first]) {
        Some(digits) => commit_by_id(repo, &digits)?,
        None => None,
    };
    Ok((commit.ok_or(GitError::RevisionNotFound)?, &text[first + 1..]))
}

/// The branch and the tag of this short name, if it can be one.
fn names(short: &[u8]) -> Vec<RefName> {
    let branch = BranchName::parse(short).ok().map(|branch| branch.to_ref());
    let tag = RefName::parse(&[b"refs/tags/", short].concat()).ok();
    branch.into_iter().chain(tag).collect()
}
