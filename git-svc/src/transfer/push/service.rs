//! The dependencies of pushes, and the clean-up after a push.

use std::time::Duration;

use ferrite_rpc::auth::{AuthError, Authorizer};
use git_store::{
    disk::repositories::FILE_CLOCK_LAG,
    repo::{pool::Pool, refs::Refs},
    types::limits::PushLimits,
};
use tokio::time::Instant;

use super::{
    push::Push,
    sessions::{HookSession, HookSessions},
};
use crate::ref_updates::{RefUpdater, protection::BranchProtection};

/// How long a push waits for repo-svc before its refs move.
const REAUTHORIZE_PATIENCE: Duration = Duration::from_secs(15);
/// Interval of requests to a repo-svc that does not respond.
const REAUTHORIZE_PAUSE: Duration = Duration::from_millis(250);

/// Handles pushes. Clones share everything.
#[derive(Clone)]
pub(crate) struct PushService {
    pub(crate) updater: RefUpdater,
    pub(crate) protection: BranchProtection,
    pub(crate) refs: Refs,
    pub(crate) pool: Pool,
    pub(crate) sessions: HookSessions,
    pub(crate) limits: PushLimits,
    pub(crate) authorizer: Authorizer,
}

impl PushService {
    /// Asks repo-svc whether the user of a push still has permission. Fails with the rejection of
    /// repo-svc, or with `Unavailable` without an answer within [`REAUTHORIZE_PATIENCE`].
    pub(super) async fn reauthorize(&self, push: &Push) -> Result<(), AuthError> {
        let Some(access) = &push.reauthorization else { return Ok(()) };
        let deadline = Instant::now() + REAUTHORIZE_PATIENCE;
        loop {
            match self.authorizer.reauthorize(access.clone()).await {
                // A restart of repo-svc must not fail the push.
                Err(AuthError::Unavailable) if Instant::now() < deadline => {
                    tokio::time::sleep(REAUTHORIZE_PAUSE).await;
                }
                decision => return decision,
            }
        }
    }

    /// Ends a push. Removes quarantines of aborted pushes to the repository that cannot belong to a
    /// running push.
    pub(crate) async fn clean_up(&self, session: HookSession, ended_well: bool) {
        let repository = session.repository();
        drop(session);
        if !ended_well {
            self.sessions.mark_aborted(repository);
            // Modification times of files are slightly behind the clock.
            tokio::time::sleep(2 * FILE_CLOCK_LAG).await;
        }
        let Some(before) = self.sessions.aborted_before(repository) else { return };
        if let Err(error) = self.pool.run_blocking(move |store| store.remove_quarantines(repository, before)).await {
            tracing::warn!(repo.id = %repository, %error, "cannot clean up after an aborted push yet");
        }
    }
}
