//! Reverts what a pull request brought.

use git2::Oid;

use super::{Attempt, MergeDraft, MergeOutcome, empty_tree, three_way::ThreeWay};
use crate::types::error::GitError;

/// The change to revert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The commit before the change: the old base of rebased commits. `None` for the first parent
    /// of `after`, as with a merge commit or a squash.
    pub before: Option<Oid>,
    /// The last commit of the change.
    pub after: Oid,
}

impl Attempt<'_> {
    pub(super) async fn revert(
        &self,
        tip: Oid,
        reverted: Reverted,
        draft: &MergeDraft,
    ) -> Result<MergeOutcome, GitError> {
        draft.check()?;
        let commits = self.merger.commits(vec![tip, reverted.after]).await?;
        let (tree, after) = (commits[0].tree()?, commits[1].tree()?);
        let before = match reverted.before.or(commits[1].parents.first().copied()) {
            Some(before) => self.merger.commits(vec![before]).await?[0].tree()?,
            None => empty_tree(),
        };
        let merged = match self.merge_trees(after, tree, before).await? {
            ThreeWay::Clean(merged) => merged,
            ThreeWay::Conflicts(conflicts) => return Ok(MergeOutcome::Conflicts(conflicts)),
        };
        if merged == tree {
            return Err(GitError::NothingToMerge);
        }
        self.finish(vec![merged], vec![draft.commit(merged, &[tip])?]).await
    }
}
