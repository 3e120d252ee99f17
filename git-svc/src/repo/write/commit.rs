//! What every commit by API has in common: where it starts and what it says. To get it onto the disk and to move the ref is the
//! caller's.

use git2::{Commit, Oid, Repository};

use super::{
    overlay::Overlay,
    signature::{Author, write_commit},
};
use crate::{
    repo::{
        read::{CommitInfo, Entry, commit_info},
        refs::{self, RefEdit},
    },
    types::{error::GitError, name::BranchName},
};

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// What a commit says, and where it goes.
#[derive(Clone, Debug)]
pub struct CommitDraft {
    /// The commit message.
    pub message: String,
    /// The branch; absent for the default branch. One that does not exist starts at the default branch.
    pub branch: Option<BranchName>,
    /// Who wrote the change.
    pub author: Author,
    /// Who makes the commit.
    pub committer: Author,
}

/// A commit that is written and that no ref points to yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedCommit {
    /// The branch to move.
    pub branch: BranchName,
    /// Where the branch is; absent if it does not exist.
    pub old: Option<Oid>,
    /// The commit.
    pub new_commit: Oid,
    /// The files that were written, as they are in the commit.
    pub entries: Vec<Entry>,
    /// What the commit says.
    pub commit: CommitInfo,
    /// All objects that were written for it, the commit included: not on disk for sure until they are synced.
    pub written: Vec<Oid>,
}

impl PreparedCommit {
    /// The change that makes the commit visible.
    #[must_use]
    pub fn edit(&self) -> RefEdit {
        RefEdit { name: self.branch.to_ref(), old: self.old, new: Some(self.new_commit) }
    }
}

/// Where a commit starts.
pub(super) struct CommitBase<'repo> {
    repo: &'repo Repository,
    branch: BranchName,
    old: Option<Oid>,
    base: Option<Commit<'repo>>,
}

impl<'repo> CommitBase<'repo> {
    /// Finds the branch of a draft and its newest commit; `new_branch` is to be made there instead of moving it.
    ///
    /// Errors: `Invalid` (field `message` or `new_branch`), `BranchNotFound` when there is nothing to make it of.
    pub(super) fn find(
        repo: &'repo Repository,
        draft: &CommitDraft,
        new_branch: Option<&BranchName>,
    ) -> Result<Self, GitError> {
        check_message(&draft.message)?;
        let head = refs::head(repo)?;
        let branch = draft.branch.clone().unwrap_or_else(|| head.branch.clone());
        let tip = refs::lookup(repo, &branch.to_ref())?;
        let (branch, old, start) = match new_branch {
            None => (branch, tip, tip.or(head.tip)),
            Some(_) if tip.is_none() => return Err(GitError::BranchNotFound),
            Some(new) if refs::lookup(repo, &new.to_ref())?.is_some() => {
                return Err(GitError::invalid("new_branch", "invalid", "exists already"));
            }
            Some(new) => (new.clone(), None, tip),
        };
        let base = start.map(|tip| repo.find_commit(tip)).transpose()?;
        Ok(Self { repo, branch, old, base })
    }

    /// The tree to change.
    pub(super) fn overlay(&self) -> Result<Overlay<'repo>, GitError> {
        Ok(Overlay::new(self.repo, self.base.as_ref().map(Commit::tree).transpose()?))
    }

    /// Makes the commit, for which `blobs` were written.
    ///
    /// Errors: `UnchangedContent`.
    pub(super) fn commit(
        self,
        draft: &CommitDraft,
        overlay: &Overlay<'_>,
        blobs: Vec<Oid>,
        entries: Vec<Entry>,
    ) -> Result<PreparedCommit, GitError> {
        let mut written = blobs;
        let tree = overlay.write(&mut written)?;
        if self.base.as_ref().is_some_and(|base| base.tree_id() == tree) {
            return Err(GitError::UnchangedContent);
        }
        let parents: Vec<_> = self.base.iter().map(Commit::id).collect();
        let people = (&draft.author, &draft.committer);
        let new_commit = write_commit(self.repo, tree, &parents, people, &draft.message)?;
        written.push(new_commit);
        let commit = commit_info(self.repo, new_commit)?;
        Ok(PreparedCommit { branch: self.branch, old: self.old, new_commit, entries, commit, written })
    }
}

fn check_message(message: &str) -> Result<(), GitError> {
    if message.trim().is_empty() {
        return Err(GitError::invalid("message", "required", "must not be empty"));
    }
    if message.len() > MAX_MESSAGE {
        return Err(GitError::invalid("message", "too_long", "is too long"));
    }
    if message.contains('\0') {
        return Err(GitError::invalid("message", "invalid", "must not hold a NUL"));
    }
    Ok(())
}
