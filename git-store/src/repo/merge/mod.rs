//! Merges, rebases and reverts without a work tree: the new commits and their objects. The caller
//! writes the objects, as those of other commits, and moves the ref if it still has the old value.
//!
//! git itself merges (`git merge-tree`), one process per merge: starting one takes a few
//! milliseconds, and libgit2 finds other renames and other conflicts. A process writes objects to a
//! scratch folder that goes when the call ends, so an attempt leaves nothing behind.
//!
//! To update a branch of a pull request from its base, merge or rebase in the other direction: with
//! the branch as `base` of [`MergeStyle::Merge`], or as `head` of [`MergeStyle::Rebase`].

mod cache;
mod commits;
mod conflict_kind;
mod conflicts;
mod new_objects;
mod output;
mod ranges;
mod rebase;
mod revert;
mod squash;
mod three_way;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ferrite_proto::id::RepositoryId;
use git2::{Oid, Repository};
use tokio::time::Instant;

use self::three_way::ThreeWay;
use super::{
    objects::{self, ObjectHead},
    pool::Pool,
    read::diff,
    write::Author,
};
use crate::{
    disk::{loose_objects::NewObject, scratch::Scratch},
    git::command::Git,
    types::{error::GitError, limits::MAX_COMMIT_BYTES},
};

pub use self::{
    cache::MergeCache,
    conflict_kind::{ConflictKind, FileSide},
    conflicts::{ConflictFile, ConflictRange, Conflicts, LineRange},
    new_objects::{MAX_NEW_BYTES, MAX_NEW_OBJECTS},
    rebase::MAX_REBASED_COMMITS,
    revert::Reverted,
    squash::{MAX_CO_AUTHORS, MAX_SQUASHED_COMMITS},
};

/// Maximum number of conflicting files that are returned. Others are counted.
pub const MAX_CONFLICT_FILES: usize = 100;
/// Maximum number of conflicting ranges of one file that are returned.
pub const MAX_CONFLICT_RANGES: usize = 100;
/// Time limit of one call.
pub const MERGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The tree without entries.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Merges commits of one repository.
#[derive(Clone, Copy)]
pub struct Merger<'a> {
    git: &'a Git,
    pool: &'a Pool,
    repository: RepositoryId,
}

/// Message and identities of a new commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeDraft {
    /// The message.
    pub message: String,
    /// The author.
    pub author: Author,
    /// The committer.
    pub committer: Author,
}

/// How the commits of a head reach its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStyle {
    /// A merge commit, also where a fast-forward is possible.
    Merge(MergeDraft),
    /// One commit with all changes. Authors of the commits who are not its own become co-authors.
    Squash(MergeDraft),
    /// The commits of the head on top of the base, as `git rebase` makes them. Author and message
    /// stay; this is the new committer. Without commits to add, the result is the base.
    Rebase(Author),
    /// As `Rebase`, then a merge commit. Its committer is that of the commits.
    RebaseMerge(MergeDraft),
    /// The head itself.
    FastForwardOnly,
}

/// Whether two commits can be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mergeability {
    /// They can.
    Clean,
    /// They cannot.
    Conflicts(Conflicts),
}

/// The result of a merge, rebase or revert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It can be done.
    Ready(PreparedMerge),
    /// It has conflicts.
    Conflicts(Conflicts),
}

/// Commits that are not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedMerge {
    /// The commit to which the branch moves.
    pub commit: Oid,
    /// New objects, including new commits.
    pub objects: Vec<NewObject>,
}

impl<'a> Merger<'a> {
    /// Merges in a repository of the pool's store.
    #[must_use]
    pub fn new(git: &'a Git, pool: &'a Pool, repository: RepositoryId) -> Self {
        Self { git, pool, repository }
    }

    /// Tries to merge `head` into `base`. The result depends on the two alone: [`MergeCache`] may
    /// keep it.
    ///
    /// # Errors
    /// `CommitNotFound`; `NoCommonHistory`; `TimedOut`; `TooLarge` if git needs too much memory or the
    /// result has too many objects; and `Invalid` (field `head`) for a merged `.gitmodules` that git
    /// would reject.
    pub async fn check(&self, base: Oid, head: Oid) -> Result<Mergeability, GitError> {
        let attempt = self.begin().await?;
        let result = attempt.check(base, head).await;
        attempt.end().await;
        result
    }

    /// Merges `head` into `base` in one of the styles.
    ///
    /// # Errors
    /// Those of [`Merger::check`]; `NothingToMerge` if the base has the head already, or a squash
    /// would change nothing; `NotFastForward`; `Invalid` (field `message`); and `TooLarge` if there
    /// are more than [`MAX_REBASED_COMMITS`] commits to rebase.
    pub async fn prepare(&self, base: Oid, head: Oid, style: &MergeStyle) -> Result<MergeOutcome, GitError> {
        let attempt = self.begin().await?;
        let result = match style {
            MergeStyle::Merge(draft) => attempt.merge_commit(base, head, draft).await,
            MergeStyle::Squash(draft) => attempt.squash(base, head, draft).await,
            MergeStyle::Rebase(committer) => attempt.rebase(base, head, committer).await,
            MergeStyle::RebaseMerge(draft) => attempt.rebase_merge(base, head, draft).await,
            MergeStyle::FastForwardOnly => attempt.fast_forward(base, head).await,
        };
        attempt.end().await;
        result
    }

    /// Takes a change back in one commit on `tip`, as `git revert --mainline=1` does for a merge.
    /// Side `theirs` of a conflict is the state before the change.
    ///
    /// # Errors
    /// Those of [`Merger::check`]; `NothingToMerge` if the tip does not have the change; and
    /// `Invalid` (field `message`).
    pub async fn revert(&self, tip: Oid, reverted: Reverted, draft: &MergeDraft) -> Result<MergeOutcome, GitError> {
        let attempt = self.begin().await?;
        let result = attempt.revert(tip, reverted, draft).await;
        attempt.end().await;
        result
    }

    async fn begin(&self) -> Result<Attempt<'a>, GitError> {
        let id = self.repository;
        let make = self.pool.run_blocking(move |store| Ok((store.path(id), store.make_scratch(id)?)));
        let (path, scratch) = make.await?;
        let deadline = Instant::now() + MERGE_TIMEOUT;
        Ok(Attempt { merger: *self, path, scratch: Arc::new(scratch), deadline })
    }

    async fn trees(&self, one: Oid, other: Oid) -> Result<(Oid, Oid), GitError> {
        let found = self.commits(vec![one, other]).await?;
        Ok((found[0].tree()?, found[1].tree()?))
    }

    /// Reads commits without their messages.
    async fn commits(&self, ids: Vec<Oid>) -> Result<Vec<ObjectHead>, GitError> {
        let read = move |repo: &Repository| ids.iter().map(|id| objects::commit_head(repo, *id, 0)).collect();
        self.pool.run(self.repository, read).await.map_err(commit_not_found)
    }

    /// Reads a commit with its message.
    async fn whole_commit(&self, id: Oid) -> Result<ObjectHead, GitError> {
        let read = move |repo: &Repository| objects::commit_head(repo, id, MAX_COMMIT_BYTES);
        let head = self.pool.run(self.repository, read).await.map_err(commit_not_found)?;
        if head.is_cut {
            return Err(GitError::TooLarge { what: "the commit", limit: MAX_COMMIT_BYTES as u64 });
        }
        Ok(head)
    }
}

/// One call: its scratch folder and its deadline.
struct Attempt<'a> {
    merger: Merger<'a>,
    /// The repository.
    path: PathBuf,
    scratch: Arc<Scratch>,
    deadline: Instant,
}

impl Attempt<'_> {
    async fn check(&self, base: Oid, head: Oid) -> Result<Mergeability, GitError> {
        self.merger.commits(vec![base, head]).await?;
        match self.merge(base, head).await? {
            ThreeWay::Clean(tree) => {
                // Fails if `prepare` would.
                self.new_objects(vec![tree]).await?;
                Ok(Mergeability::Clean)
            }
            ThreeWay::Conflicts(conflicts) => Ok(Mergeability::Conflicts(conflicts)),
        }
    }

    async fn merge_commit(&self, base: Oid, head: Oid, draft: &MergeDraft) -> Result<MergeOutcome, GitError> {
        draft.check()?;
        let (old_tree, _) = self.merger.trees(base, head).await?;
        let tree = match self.merge(base, head).await? {
            ThreeWay::Clean(tree) => tree,
            ThreeWay::Conflicts(conflicts) => return Ok(MergeOutcome::Conflicts(conflicts)),
        };
        // The tree also stays if the base has the same changes in other commits.
        if tree == old_tree && self.merge_base(base, head).await? == head {
            return Err(GitError::NothingToMerge);
        }
        self.finish(vec![tree], vec![draft.commit(tree, &[base, head])?]).await
    }

    async fn fast_forward(&self, base: Oid, head: Oid) -> Result<MergeOutcome, GitError> {
        self.merger.commits(vec![base, head]).await?;
        match self.merge_base(base, head).await? {
            common if common == head => Err(GitError::NothingToMerge),
            common if common == base => Ok(MergeOutcome::Ready(PreparedMerge { commit: head, objects: Vec::new() })),
            _ => Err(GitError::NotFastForward),
        }
    }

    /// Returns git's first merge base.
    async fn merge_base(&self, base: Oid, head: Oid) -> Result<Oid, GitError> {
        diff::merge_base(self.merger.git, &self.path, base, head).await?.ok_or(GitError::NoCommonHistory)
    }

    /// Returns the new commits, the last of which is the result, with the objects below `trees`
    /// that are not in the repository.
    async fn finish(&self, trees: Vec<Oid>, commits: Vec<NewObject>) -> Result<MergeOutcome, GitError> {
        let commit = commits.last().map(NewObject::id);
        let commit = commit.ok_or_else(|| GitError::Internal("a merge made no commit".to_owned()))?;
        let mut objects = self.new_objects(trees).await?;
        objects.extend(commits);
        Ok(MergeOutcome::Ready(PreparedMerge { commit, objects }))
    }

    async fn new_objects(&self, trees: Vec<Oid>) -> Result<Vec<NewObject>, GitError> {
        let scratch = Arc::clone(&self.scratch);
        self.merger.pool.run_blocking(move |_| new_objects::find(&scratch, &trees)).await
    }

    /// Removes the scratch folder. If the caller is gone before, so is the folder, but its removal
    /// blocks a thread of the runtime.
    async fn end(self) {
        let scratch = self.scratch;
        let remove = self.merger.pool.run_blocking(move |_| {
            drop(scratch);
            Ok(())
        });
        // Fails if the pool is busy. Then the folder was removed here.
        drop(remove.await);
    }
}

fn commit_not_found(error: GitError) -> GitError {
    match error {
        GitError::Git(error) if error.code() == git2::ErrorCode::NotFound => GitError::CommitNotFound,
        error => error,
    }
}

fn empty_tree() -> Oid {
    Oid::from_str(EMPTY_TREE).expect("the constant is an id")
}

#[cfg(test)]
mod tests;
