//! Branches and commits.

use git2::{Oid, Repository};

use crate::{
    repo::{
        refs::{self, RefPage},
        revision::{Resolved, Revision},
    },
    types::{error::GitError, name::BranchName},
};

/// Who, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// As stored.
    pub name: Vec<u8>,
    /// As stored.
    pub email: Vec<u8>,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Minutes east of UTC that the instant was written with.
    pub offset_minutes: i32,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// Its id.
    pub id: Oid,
    /// Its root tree.
    pub tree: Oid,
    /// Its parents, in order.
    pub parents: Vec<Oid>,
    /// The message as stored.
    pub message: Vec<u8>,
    /// Who wrote the change.
    pub author: Signature,
    /// Who made the commit.
    pub committer: Signature,
}

/// A branch and its newest commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// The short name.
    pub name: Vec<u8>,
    /// What it points to.
    pub commit: CommitInfo,
}

/// A page of branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchPage {
    /// By name.
    pub branches: Vec<BranchInfo>,
    /// In all pages.
    pub total: usize,
}

/// A page of the branches, for a page of their refs.
pub fn branches(repo: &Repository, listed: &RefPage) -> Result<BranchPage, GitError> {
    let mut branches = Vec::with_capacity(listed.entries.len());
    for entry in &listed.entries {
        branches.push(BranchInfo { name: entry.name.short().to_vec(), commit: commit_info(repo, entry.target)? });
    }
    Ok(BranchPage { branches, total: listed.total })
}

/// One branch.
///
/// Errors: `BranchNotFound`.
pub fn branch(repo: &Repository, name: &BranchName) -> Result<BranchInfo, GitError> {
    let tip = refs::lookup(repo, &name.to_ref())?.ok_or(GitError::BranchNotFound)?;
    Ok(BranchInfo { name: name.as_bytes().to_vec(), commit: commit_info(repo, tip)? })
}

/// The commit that a revision names, and how it was named.
///
/// Errors: `RevisionNotFound`.
pub fn commit(repo: &Repository, revision: &Revision) -> Result<(Resolved, CommitInfo), GitError> {
    let resolved = revision.resolve(repo)?;
    let commit = commit_info(repo, resolved.commit)?;
    Ok((resolved, commit))
}

/// The name and the address of a line such as `Ada <ada@example.com> 0 +0000`, found as git finds them.
pub(crate) fn identity(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = line.iter().position(|byte| *byte == b'<')?;
    let (name, rest) = (&line[..open], &line[open + 1..]);
    let close = rest.iter().position(|byte| *byte == b'>')?;
    Some((name.trim_ascii(), &rest[..close]))
}

/// The commit with this id.
pub fn commit_info(repo: &Repository, id: Oid) -> Result<CommitInfo, GitError> {
    let commit = repo.find_commit(id)?;
    let header = commit.raw_header_bytes();
    Ok(CommitInfo {
        id,
        tree: commit.tree_id(),
        parents: commit.parent_ids().collect(),
        message: commit.message_raw_bytes().to_vec(),
        author: signature_of(header, b"author ", &commit.author()),
        committer: signature_of(header, b"committer ", &commit.committer()),
    })
}

/// Somebody that the line of a header names which begins with `role`; `signature` is the same as the library read it, without full
/// stops at the ends of names.
pub(super) fn signature_of(header: &[u8], role: &[u8], signature: &git2::Signature<'_>) -> Signature {
    let line = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(role));
    let (name, email) = line.and_then(identity).unwrap_or_else(|| (signature.name_bytes(), signature.email_bytes()));
    Signature {
        name: name.to_vec(),
        email: email.to_vec(),
        seconds: signature.when().seconds(),
        offset_minutes: signature.when().offset_minutes(),
    }
}
