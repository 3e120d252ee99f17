//! The parts that pushes work with, and the clean-up after a push.

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

/// Time for which a push waits for an answer of repo-svc before its refs move.
const REAUTHORIZE_PATIENCE: Duration = Duration::from_secs(15);
/// Time between two questions to a repo-svc that does not respond.
const REAUTHORIZE_PAUSE: Duration = Duration::from_millis(250);

/// Takes pushes. Clones share everything.
#[derive(Clone)]
pub(crate) struct PushService {
    pub(crate) updater: RefUpdater,
    pub(crate) protection: BranchProtection,
    pub(crate) refs: Refs,
    pub(crate) pool: Pool,
    /// Knows the hooks of pushes.
    pub(crate) sessions: HookSessions,
    pub(crate) limits: PushLimits,
    /// Asks repo-svc before refs move.
    pub(crate) authorizer: Authorizer,
}

impl PushService {
    /// Asks repo-svc whether the user of a push still may push.
    ///
    /// # Errors
    /// The refusal of repo-svc, and `Unavailable` if it gives no answer in [`REAUTHORIZE_PATIENCE`].
    pub(super) async fn reauthorize(&self, push: &Push) -> Result<(), AuthError> {
        let Some(access) = &push.reauthorization else { return Ok(()) };
        let deadline = Instant::now() + REAUTHORIZE_PATIENCE;
        loop {
            match self.authorizer.reauthorize(access.clone()).await {
                // A restart of repo-svc must not cost the push.
                Err(AuthError::Unavailable) if Instant::now() < deadline => {
                    tokio::time::sleep(REAUTHORIZE_PAUSE).await;
                }
                decision => return decision,
            }
        }
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
