//! Reads one file by `ref/path`, where the ref may contain slashes itself.

use git2::{Oid, Repository};

use super::{
    contents::{MAX_INLINE_BYTES, find},
    entry::{EntryKind, read_blob},
};
use crate::{
    repo::{
        objects,
        refs::lookup,
        revision::{commit_by_id, object_id, peel},
    },
    types::{
        error::GitError,
        name::{BranchName, RefName},
        path::TreePath,
    },
};

/// Bytes of the longest `ref/path`.
const MAX_INPUT: usize = 8192;

/// A file found by `ref/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// The commit that the ref names.
    pub commit: Oid,
    /// The id of the blob.
    pub blob: Oid,
    /// Size of the blob in bytes.
    pub size: u64,
    /// The path from the root of the tree.
    pub path: Vec<u8>,
    /// The last component of the path.
    pub name: Vec<u8>,
    /// The content; `None` above 1 MiB, where [`Git::cat_file`](crate::git::command::Git::cat_file) streams it.
    pub content: Option<Vec<u8>>,
}

/// Finds the file that `ref_and_path` names. The ref is the longest prefix, up to a slash, that is a branch or tag; if
/// there is none, a first component of 7 to 40 hexadecimal digits may be a commit id. A symbolic link is returned as the
/// text of its target.
///
/// # Errors
/// `RevisionNotFound` and `PathNotFound`.
pub fn raw(repo: &Repository, ref_and_path: &[u8]) -> Result<RawFile, GitError> {
    if ref_and_path.len() > MAX_INPUT {
        return Err(GitError::PathNotFound);
    }
    let (commit, path) = split(repo, ref_and_path)?;
    let path = TreePath::literal(path).map_err(|_| GitError::PathNotFound)?;
    let root = objects::tree_of(repo, commit)?;
    let (mode, blob) = find(repo, &root, &path)?.ok_or(GitError::PathNotFound)?;
    if !matches!(EntryKind::of(mode), EntryKind::File | EntryKind::Symlink) {
        return Err(GitError::PathNotFound);
    }
    let (size, content) = read_blob(repo, blob, MAX_INLINE_BYTES)?;
    Ok(RawFile { commit, blob, size, name: path.name().to_vec(), path: path.as_bytes().to_vec(), content })
}

/// Splits `text` after the ref; returns the commit of the ref, and the path.
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

/// Returns the full names of the branch and the tag with this short name, where valid.
fn names(short: &[u8]) -> Vec<RefName> {
    let branch = BranchName::parse(short).ok().map(|branch| branch.to_ref());
    let tag = RefName::parse(&[b"refs/tags/", short].concat()).ok();
    branch.into_iter().chain(tag).collect()
}
