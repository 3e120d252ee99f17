//! The parts that pushes work with, and the clean-up after a push.

use super::sessions::{HookSession, HookSessions};
use crate::{
    disk::repositories::FILE_CLOCK_LAG,
    ref_updates::{RefUpdater, protection::BranchProtection},
    repo::{pool::Pool, refs::Refs},
    types::limits::PushLimits,
};

/// Takes pushes. Clones share everything.
#[derive(Clone)]
pub(crate) struct PushService {
    pub(super) updater: RefUpdater,
    pub(super) protection: BranchProtection,
    pub(super) refs: Refs,
    pub(super) pool: Pool,
    pub(super) sessions: HookSessions,
    pub(super) limits: PushLimits,
}

impl PushService {
    /// A service whose pushes keep `limits` and whose hooks are known to `sessions`.
    pub(crate) fn new(
        updater: RefUpdater,
        protection: BranchProtection,
        refs: Refs,
        pool: Pool,
        sessions: HookSessions,
        limits: PushLimits,
    ) -> Self {
        Self { updater, protection, refs, pool, sessions, limits }
    }

    /// Limits of one push.
    pub(crate) fn limits(&self) -> &PushLimits {
        &self.limits
    }

    /// Ends a push. Removes the quarantines of aborted pushes to the repository that no running push can own.
    pub(crate) async fn clean_up(&self, session: HookSession, ended_well: bool) {
        let repository = session.repository();
        drop(session);
        if !ended_well {
            self.sessions.mark_aborted(repository);
            // Modification times of files are a little behind the clock.
            tokio::time::sleep(2 * FILE_CLOCK_LAG).await;
        }
        let Some(before) = self.sessions.aborted_before(repository) else { return };
        if let Err(error) = self.pool.run_blocking(move |store| store.remove_quarantines(repository, before)).await {
            tracing::warn!(repo.id = %repository, %error, "what a broken push left waits to be tidied");
        }
    }
}
