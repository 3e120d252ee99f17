//! The common part of all commits made through the API: base, message and commit object. The
//! caller writes the objects and moves the ref.

use ferrite_core::version::PreconditionFailed;
use git2::{ObjectType, Oid, Repository};

use super::{
    changes::Changes,
    overlay::{Overlay, TreeEntry},
    signature::{Author, commit_content, signed_off},
};
use crate::{
    disk::loose_objects::NewObject,
    repo::{
        objects,
        read::{CommitInfo, Entry, EntryKind},
        refs::{self, RefEdit},
    },
    types::{
        error::GitError,
        limits::MAX_COMMIT_BYTES,
        name::{BranchName, check_new_name},
    },
};

/// Longest message, in bytes. The rest of a commit is its header and a trailer, with three names and
/// addresses of 255 characters.
const MAX_MESSAGE_BYTES: usize = MAX_COMMIT_BYTES - (16 << 10);

/// A precondition on what exists at a path: kind and id, or `None`.
pub type EntryPrecondition<'a> = &'a dyn Fn(Option<(EntryKind, Oid)>) -> Result<(), PreconditionFailed>;

/// Message, branch and identities of a commit.
#[derive(Clone, Debug)]
pub struct CommitDraft {
    /// The commit message; empty for one that names the files, such as `Add src/main.rs`.
    pub message: String,
    /// The branch; `None` for the default branch. A new branch starts at the default branch.
    pub branch: Option<BranchName>,
    /// A branch to create; `branch`, which must exist, then stays where it is.
    pub new_branch: Option<BranchName>,
    /// The author.
    pub author: Author,
    /// The committer.
    pub committer: Author,
    /// Whether the message gets a `Signed-off-by` trailer of the committer.
    pub signoff: bool,
}

/// A commit whose objects are not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedCommit {
    /// The branch to create or move.
    pub branch: BranchName,
    /// The tip of the branch, if it exists.
    pub old: Option<Oid>,
    /// The id of the commit.
    pub new_commit: Oid,
    /// The written files with ids and sizes.
    pub entries: Vec<Entry>,
    /// Whether a file that was there before is replaced, moved or removed.
    pub is_update: bool,
    /// The fields of the commit.
    pub commit: CommitInfo,
    /// New objects, including the commit itself.
    pub objects: Vec<NewObject>,
}

impl PreparedCommit {
    /// Returns the ref change that publishes the commit.
    #[must_use]
    pub fn edit(&self) -> RefEdit {
        RefEdit { name: self.branch.to_ref(), old: self.old, new: Some(self.new_commit) }
    }
}

pub(super) struct CommitBase<'repo> {
    repo: &'repo Repository,
    branch: BranchName,
    old: Option<Oid>,
    base: Option<Base>,
}

/// What a commit writes, beside its tree.
#[derive(Default)]
pub(super) struct Written {
    pub(super) blobs: Vec<NewObject>,
    pub(super) entries: Vec<Entry>,
    pub(super) changes: Changes,
}

#[derive(Clone, Copy)]
struct Base {
    commit: Oid,
    tree: Oid,
}

impl<'repo> CommitBase<'repo> {
    /// Finds a draft's branch and its tip.
    pub(super) fn find(repo: &'repo Repository, draft: &CommitDraft) -> Result<Self, GitError> {
        if !draft.message.is_empty() {
            check_message(&draft.message)?;
        }
        let head = refs::head(repo)?;
        let branch = draft.branch.clone().unwrap_or_else(|| head.branch.clone());
        let tip = refs::lookup(repo, &branch.to_ref())?;
        let (branch, old, start) = match &draft.new_branch {
            None => {
                if tip.is_none() && draft.branch.is_some() {
                    check_new_name(branch.as_bytes(), "branch")?;
                }
                (branch, tip, tip.or(head.tip))
            }
            Some(_) if tip.is_none() => return Err(GitError::BranchNotFound),
            Some(new) if refs::lookup(repo, &new.to_ref())?.is_some() => {
                return Err(GitError::invalid("new_branch", "taken", "already exists"));
            }
            Some(new) => {
                check_new_name(new.as_bytes(), "new_branch")?;
                (new.clone(), None, tip)
            }
        };
        let base = |commit| objects::tree_id(repo, commit).map(|tree| Base { commit, tree });
        let base = start.map(base).transpose()?;
        Ok(Self { repo, branch, old, base })
    }

    /// Checks the precondition on the base's entry that the commit replaces or removes.
    pub(super) fn require(&self, found: Option<TreeEntry>, require: EntryPrecondition<'_>) -> Result<(), GitError> {
        let failed = |_| GitError::Precondition { branch: self.branch.as_bytes().to_vec() };
        require(found.map(|found| (found.kind(), found.id))).map_err(failed)
    }

    pub(super) fn overlay(&self) -> Result<Overlay<'repo>, GitError> {
        Overlay::new(self.repo, self.base.map(|base| base.tree))
    }

    pub(super) fn commit(
        self,
        draft: &CommitDraft,
        overlay: &Overlay<'_>,
        written: Written,
    ) -> Result<PreparedCommit, GitError> {
        let Written { blobs: mut objects, entries, changes } = written;
        let tree = overlay.build(&mut objects)?;
        if self.base.is_some_and(|base| base.tree == tree) {
            return Err(GitError::UnchangedContent);
        }
        let parents: Vec<_> = self.base.iter().map(|base| base.commit).collect();
        let people = (&draft.author, &draft.committer);
        let message = if draft.message.is_empty() { changes.message() } else { draft.message.clone() };
        let message = if draft.signoff { signed_off(&message, &draft.committer) } else { message };
        let content = commit_content(tree, &parents, people, &message);
        let object = NewObject::new(ObjectType::Commit, content)?;
        let new_commit = object.id();
        objects.push(object);
        let commit = CommitInfo {
            id: new_commit,
            tree,
            parents,
            message,
            author: draft.author.signature(),
            committer: draft.committer.signature(),
            is_truncated: false,
        };
        Ok(PreparedCommit {
            branch: self.branch,
            old: self.old,
            new_commit,
            entries,
            is_update: changes.is_update(),
            commit,
            objects,
        })
    }
}

/// Checks the message of a commit or tag.
pub(in crate::repo) fn check_message(message: &str) -> Result<(), GitError> {
    if message.trim().is_empty() {
        return Err(GitError::invalid("message", "required", "must not be empty"));
    }
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(GitError::invalid("message", "too_long", "is too long"));
    }
    if message.contains('\0') {
        return Err(GitError::invalid("message", "invalid", "must not contain a NUL character"));
    }
    Ok(())
}
