//! Replays commits on another one, as `git rebase` does.
//!
//! Merges are left out, and so are commits whose change is there already or that become empty.
//! Commits that lie on the new base in order stay as they are.

use git2::Oid;
use tokio::time::Instant;

use super::{
    Attempt, MergeDraft, MergeOutcome, PreparedMerge,
    commits::replayed,
    conflicts::Conflicts,
    empty_tree,
    three_way::{ThreeWay, explained},
};
use crate::{
    disk::loose_objects::NewObject,
    git::command::merge::CommitsToList,
    repo::{objects::full_id, write::Author},
    types::error::GitError,
};

/// Maximum number of commits of one rebase.
pub const MAX_REBASED_COMMITS: usize = 250;

/// How a replay ended.
enum Replay {
    Done(Replayed),
    Conflicts(Conflicts),
}

/// Commits on top of the base.
struct Replayed {
    /// The last of them, or the base.
    tip: Oid,
    tree: Oid,
    /// Trees of the new commits.
    trees: Vec<Oid>,
    commits: Vec<NewObject>,
}

impl Attempt<'_> {
    pub(super) async fn rebase(&self, base: Oid, head: Oid, committer: &Author) -> Result<MergeOutcome, GitError> {
        let replayed = match self.replay(base, head, committer).await? {
            Replay::Done(replayed) => replayed,
            Replay::Conflicts(conflicts) => return Ok(MergeOutcome::Conflicts(conflicts)),
        };
        if replayed.commits.is_empty() {
            return Ok(MergeOutcome::Ready(PreparedMerge { commit: replayed.tip, objects: Vec::new() }));
        }
        self.finish(replayed.trees, replayed.commits).await
    }

    pub(super) async fn rebase_merge(
        &self,
        base: Oid,
        head: Oid,
        draft: &MergeDraft,
    ) -> Result<MergeOutcome, GitError> {
        draft.check()?;
        let mut replayed = match self.replay(base, head, &draft.committer).await? {
            Replay::Done(replayed) => replayed,
            Replay::Conflicts(conflicts) => return Ok(MergeOutcome::Conflicts(conflicts)),
        };
        if replayed.tip == base {
            return Err(GitError::NothingToMerge);
        }
        replayed.commits.push(draft.commit(replayed.tree, &[base, replayed.tip])?);
        self.finish(replayed.trees, replayed.commits).await
    }

    /// Lists commits, oldest first and without merges: the newest `count`. Says of each whether the
    /// base has its change.
    pub(super) async fn list_commits(
        &self,
        base: Oid,
        head: Oid,
        list: CommitsToList,
        count: usize,
    ) -> Result<Vec<(Oid, bool)>, GitError> {
        let child = self.merger.git.list_commits(&self.path, base, head, list, count)?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let text = child.finish(&[], left).await.map_err(explained)?;
        let commit = |line: &[u8]| {
            let (is_there, id) = match line.split_first() {
                Some((b'=', id)) => (true, id),
                Some((b'+', id)) => (false, id),
                _ => (false, line),
            };
            let id = full_id(id).ok_or_else(|| GitError::Internal("git printed no object id".to_owned()))?;
            Ok((id, is_there))
        };
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(commit).collect()
    }

    async fn replay(&self, base: Oid, head: Oid, committer: &Author) -> Result<Replay, GitError> {
        let (mut tree, _) = self.merger.trees(base, head).await?;
        if self.merge_base(base, head).await? == head {
            return Err(GitError::NothingToMerge);
        }
        let (list, count) = (CommitsToList::ToRebase, MAX_REBASED_COMMITS + 1);
        let originals = self.list_commits(base, head, list, count).await?;
        if originals.len() > MAX_REBASED_COMMITS {
            let what = "the number of commits to rebase";
            return Err(GitError::TooLarge { what, limit: MAX_REBASED_COMMITS as u64 });
        }
        let (mut tip, mut trees, mut commits) = (base, Vec::new(), Vec::new());
        for (id, is_there) in originals {
            let original = self.merger.whole_commit(id).await?;
            let (own, parent) = (original.tree()?, original.parents.first().copied());
            let before = match parent {
                Some(parent) => self.merger.commits(vec![parent]).await?[0].tree()?,
                None => empty_tree(),
            };
            // Commits that were empty before stay.
            if is_there && own != before {
                continue;
            }
            if parent == Some(tip) {
                (tip, tree) = (id, own);
                continue;
            }
            let merged = match self.merge_trees(before, tree, own).await? {
                ThreeWay::Clean(merged) => merged,
                ThreeWay::Conflicts(conflicts) => {
                    return Ok(Replay::Conflicts(Conflicts { commit: Some(id), ..conflicts }));
                }
            };
            if merged == tree && own != before {
                continue;
            }
            let commit = replayed(&original, merged, tip, committer)?;
            (tip, tree) = (commit.id(), merged);
            trees.push(merged);
            commits.push(commit);
        }
        Ok(Replay::Done(Replayed { tip, tree, trees, commits }))
    }
}
