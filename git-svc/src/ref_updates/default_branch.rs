//! Changes the branch that HEAD points to: first the intent in the repository's row, then HEAD,
//! then the event together with the end of the intent. So a started change is completed and
//! announced even after a crash.

use ferrite_proto::events::{RefsUpdateKind, RefsUpdated, event::Fact};
use git_store::types::{error::GitError, name::BranchName};

use super::updater::{RefUpdater, WriteGuard};
use crate::{
    db::{MaintenanceTable, RepositoryTable},
    rpc_error::RpcError,
};

/// State of a repository after HEAD changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadChange {
    /// Number of the change in the journal.
    pub(crate) number: i64,
    pub(crate) size_bytes: i64,
    pub(crate) is_empty: bool,
}

impl RefUpdater {
    /// Points HEAD to a branch. Returns `None` if it already points there. Fails with `Invalid`
    /// (field `default_branch`) if there is no such branch.
    ///
    /// Must run to completion, like [`RefUpdater::apply`].
    pub(crate) async fn set_default_branch(
        &self,
        guard: &WriteGuard,
        branch: BranchName,
    ) -> Result<Option<HeadChange>, RpcError> {
        let (inner, id) = (self.inner(), guard.id);
        if !self.is_new_default_branch(guard, &branch).await? {
            return Ok(None);
        }
        inner.set_needs_recovery(id, true);
        if !inner.repositories.begin_head(id, &branch).await? {
            inner.set_needs_recovery(id, false);
            return Err(GitError::RepositoryNotFound.into());
        }
        let change = self.finish_head(guard, branch).await?;
        inner.set_needs_recovery(id, false);
        Ok(Some(change))
    }

    /// Returns whether HEAD would have to change to point to a branch. Fails with `Invalid` (field
    /// `default_branch`) if there is no such branch.
    pub(crate) async fn is_new_default_branch(
        &self,
        guard: &WriteGuard,
        branch: &BranchName,
    ) -> Result<bool, RpcError> {
        let (inner, id) = (self.inner(), guard.id);
        if inner.refs.head(id).await?.branch == *branch {
            return Ok(false);
        }
        if inner.refs.resolve(id, branch.to_ref()).await?.is_none() {
            return Err(GitError::invalid("default_branch", "unknown", "branch does not exist").into());
        }
        Ok(true)
    }

    /// Completes a change of HEAD that was interrupted. The caller must hold the write lock.
    pub(super) async fn recover_head(&self, guard: &WriteGuard) -> Result<(), RpcError> {
        let Some(name) = self.inner().repositories.new_head(guard.id).await? else { return Ok(()) };
        let Ok(branch) = BranchName::parse(&name) else {
            return Err(GitError::Internal("the recorded default branch has an invalid name".to_owned()).into());
        };
        self.finish_head(guard, branch).await?;
        tracing::info!(repo.id = %guard.id, "finished an interrupted change of the default branch");
        Ok(())
    }

    async fn finish_head(&self, guard: &WriteGuard, branch: BranchName) -> Result<HeadChange, RpcError> {
        let (inner, id) = (self.inner(), guard.id);
        inner.refs.set_head(id, branch.clone()).await?;
        let (_, size) = inner.refs.head_and_size(id).await?;
        let (size_bytes, is_empty) = (i64::try_from(size).unwrap_or(i64::MAX), inner.refs.is_empty(id).await?);
        let mut tx = inner.db.begin().await?;
        let next = RepositoryTable::next_number(&mut tx, id).await?.ok_or(GitError::RepositoryNotFound)?;
        RepositoryTable::end_head(&mut tx, id).await?;
        MaintenanceTable::changed(&mut tx, id, next.number, inner.clock.now_us()).await?;
        if !next.is_wiki {
            let fact = Fact::RefsUpdated(RefsUpdated {
                kind: RefsUpdateKind::Api.into(),
                number: next.number,
                size_bytes,
                is_empty,
                default_branch: branch.as_bytes().to_vec(),
                ..RefsUpdated::default()
            });
            self.announce(&mut tx, id, fact).await?;
        }
        tx.commit().await?;
        // Not awaited: the subscriber (repo-svc) is the caller of this RPC.
        self.wake_relay();
        if !next.is_wiki {
            inner.changed.note(id);
        }
        Ok(HeadChange { number: next.number, size_bytes, is_empty })
    }
}

#[cfg(test)]
mod tests;
