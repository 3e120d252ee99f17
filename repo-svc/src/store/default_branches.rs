//! Changes of default branches. A change is committed to this database first, so that readers see
//! the new branch. Then the git store points HEAD to it: one process claims the change and asks the
//! store. After a crash another process does.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::events::RefsUpdated;
use ferrite_proto::id::RepositoryId;

use super::repositories::{Repository, RepositoryTable};
use super::repository_sizes::SizeChange;

/// Older claims are considered lost in a crash; the call to the store has a far shorter deadline.
/// So are those from further in the future: the clock was wrong.
const MAX_AGE_US: i64 = 60 * 1_000_000;
const FIND: &str = "SELECT head_claimed_us FROM repositories WHERE id = $1 AND new_default_branch IS NOT NULL \
     AND head_claimed_us > $2 AND head_claimed_us <= $3";
const BEGIN: &str = "UPDATE repositories SET new_default_branch = $2, head_claimed_us = $3 WHERE id = $1";
const DUE: &str = "SELECT r.id, p.store, r.new_default_branch AS branch, r.head_claimed_us AS claimed_us FROM repositories r \
     JOIN placements p ON p.repository_id = r.id WHERE r.new_default_branch IS NOT NULL AND (r.head_claimed_us <= $1 OR r.head_claimed_us > $2) \
     ORDER BY r.head_claimed_us, r.id LIMIT 100";
const TAKE_OVER: &str = "UPDATE repositories SET head_claimed_us = $3 WHERE id = $1 AND head_claimed_us = $2 \
     AND new_default_branch IS NOT NULL";
const ADOPT: &str = "UPDATE repositories SET default_branch = new_default_branch WHERE id = $1 AND head_claimed_us = $2 \
     AND new_default_branch IS NOT NULL";
const END: &str = "UPDATE repositories SET new_default_branch = NULL WHERE id = $1 AND head_claimed_us = $2";

/// A change of a default branch that this process is making on the git store.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct HeadClaim {
    id: i64,
    pub(crate) store: String,
    /// Short name.
    pub(crate) branch: String,
    claimed_us: i64,
}

impl HeadClaim {
    pub(crate) fn repository(&self) -> RepositoryId {
        RepositoryId(self.id)
    }
}

/// The git store's response.
#[derive(Clone, Debug)]
pub(crate) enum HeadOutcome {
    /// HEAD now points to the branch. The store also sends an event with the repository's state.
    Moved(Box<RefsUpdated>),
    /// HEAD already pointed there.
    Unchanged,
    /// The branch has been deleted since it was checked. HEAD stays where it was.
    NoBranch,
}

impl RepositoryTable {
    /// Whether a change of the default branch is in progress. The repository must be locked.
    pub(crate) async fn is_head_claimed(&self, tx: &mut Tx, id: RepositoryId, now_us: i64) -> Result<bool, DbError> {
        let claim: Option<(i64,)> = tx.optional(FIND, &args![id, now_us - MAX_AGE_US, now_us + MAX_AGE_US]).await?;
        Ok(claim.is_some())
    }

    /// Commits to a new default branch for a locked repository without a [change in
    /// progress](Self::is_head_claimed).
    pub(crate) async fn begin_head(
        &self,
        tx: &mut Tx,
        repository: &Repository,
        branch: &str,
        now_us: i64,
    ) -> Result<HeadClaim, DbError> {
        tx.execute(BEGIN, &args![repository.id, branch, now_us]).await?;
        let (store, branch) = (repository.store.clone(), branch.to_owned());
        Ok(HeadClaim { id: repository.id, store, branch, claimed_us: now_us })
    }

    /// Returns up to 100 changes left over by a crash or an unresponsive store.
    pub(crate) async fn due_heads(&self, now_us: i64) -> Result<Vec<HeadClaim>, DbError> {
        self.db.all(DUE, &args![now_us - MAX_AGE_US, now_us + MAX_AGE_US]).await
    }

    /// Takes over a leftover change. Returns `None` if another process was faster, or if the change
    /// is done.
    pub(crate) async fn take_over_head(&self, due: HeadClaim, now_us: i64) -> Result<Option<HeadClaim>, DbError> {
        let taken = self.db.execute(TAKE_OVER, &args![due.id, due.claimed_us, now_us]).await?;
        Ok((taken == 1).then_some(HeadClaim { claimed_us: now_us, ..due }))
    }

    /// Ends a change with the store's response. Returns the change in size that the store reported.
    pub(crate) async fn end_head(
        &self,
        tx: &mut Tx,
        claim: &HeadClaim,
        outcome: &HeadOutcome,
        now_us: i64,
    ) -> Result<Option<SizeChange>, DbError> {
        let (id, claimed) = (claim.repository(), args![claim.id, claim.claimed_us]);
        self.lock(tx, id).await?;
        let mut size = None;
        match outcome {
            HeadOutcome::Moved(update) => size = self.apply_refs(tx, id, update, now_us).await?,
            HeadOutcome::Unchanged => {
                tx.execute(ADOPT, &claimed).await?;
            }
            HeadOutcome::NoBranch => {}
        }
        tx.execute(END, &claimed).await?;
        Ok(size)
    }
}
