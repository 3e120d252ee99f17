//! Reads branches with their tips.

use git2::Repository;

use super::{
    commit::{CommitInfo, commit_info},
    commit_list::CommitList,
};
use crate::{
    repo::refs::{self, RefEntry},
    types::{error::GitError, name::BranchName},
};

/// A branch and its tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// The short name.
    pub name: Vec<u8>,
    /// The tip.
    pub commit: CommitInfo,
}

/// Reads the branches of a page of refs.
pub fn branches(repo: &Repository, listed: &[RefEntry]) -> Result<Vec<BranchInfo>, GitError> {
    let commits = CommitList::read(repo, listed.iter().map(|entry| entry.target))?;
    let names = listed.iter().map(|entry| entry.name.short().to_vec());
    Ok(names.zip(commits).map(|(name, commit)| BranchInfo { name, commit }).collect())
}

/// Reads one branch.
pub fn branch(repo: &Repository, name: &BranchName) -> Result<BranchInfo, GitError> {
    let tip = refs::lookup(repo, &name.to_ref())?.ok_or(GitError::BranchNotFound)?;
    Ok(BranchInfo { name: name.as_bytes().to_vec(), commit: commit_info(repo, tip)? })
}
