//! Reads branches and commits.

use git2::{Oid, Repository};

use crate::{
    repo::{
        refs::{self, RefPage},
        revision::{Resolved, Revision},
    },
    types::{error::GitError, name::BranchName},
};

/// The author, committer or tagger of an object, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name as stored.
    pub name: Vec<u8>,
    /// The email address as stored.
    pub email: Vec<u8>,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Offset from UTC, in minutes to the east.
    pub offset_minutes: i32,
}

/// The fields of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The commit's id.
    pub id: Oid,
    /// The id of its root tree.
    pub tree: Oid,
    /// The ids of its parents, in order.
    pub parents: Vec<Oid>,
    /// The message as stored.
    pub message: Vec<u8>,
    /// The author of the change.
    pub author: Signature,
    /// The committer.
    pub committer: Signature,
}

/// A branch and its newest commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// The short name.
    pub name: Vec<u8>,
    /// The commit at its tip.
    pub commit: CommitInfo,
}

/// A page of branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchPage {
    /// The branches, sorted by name.
    pub branches: Vec<BranchInfo>,
    /// Branches on all pages.
    pub total: usize,
}

/// Reads the branches of a page of refs.
///
/// # Errors
/// Those of libgit2.
pub fn branches(repo: &Repository, listed: &RefPage) -> Result<BranchPage, GitError> {
    let mut branches = Vec::with_capacity(listed.entries.len());
    for entry in &listed.entries {
        branches.push(BranchInfo { name: entry.name.short().to_vec(), commit: commit_info(repo, entry.target)? });
    }
    Ok(BranchPage { branches, total: listed.total })
}

/// Reads one branch.
///
/// # Errors
/// `BranchNotFound`.
pub fn branch(repo: &Repository, name: &BranchName) -> Result<BranchInfo, GitError> {
    let tip = refs::lookup(repo, &name.to_ref())?.ok_or(GitError::BranchNotFound)?;
    Ok(BranchInfo { name: name.as_bytes().to_vec(), commit: commit_info(repo, tip)? })
}

/// Resolves a revision, and reads its commit.
///
/// # Errors
/// `RevisionNotFound`.
pub fn commit(repo: &Repository, revision: &Revision) -> Result<(Resolved, CommitInfo), GitError> {
    let resolved = revision.resolve(repo)?;
    let commit = commit_info(repo, resolved.commit)?;
    Ok((resolved, commit))
}

/// Returns name and email address of a line such as `Ada <ada@example.com> 0 +0000`, split as git does.
pub(crate) fn identity(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = line.iter().position(|byte| *byte == b'<')?;
    let (name, rest) = (&line[..open], &line[open + 1..]);
    let close = rest.iter().position(|byte| *byte == b'>')?;
    Some((name.trim_ascii(), &rest[..close]))
}

/// Reads the commit with this id.
///
/// # Errors
/// Those of libgit2, also when the object is missing.
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

/// Returns the signature in the header line that begins with `role`. Name and address come from the line itself, because
/// libgit2, which read `signature`, strips full stops from the ends of names.
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
