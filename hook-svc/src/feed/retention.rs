//! A background task that keeps events and delivery logs within their size limits, per repository
//! and per account.
//!
//! It runs every minute, and at once after much growth. Beyond a limit, it removes the oldest
//! events with their deliveries until seven eighths of the limit are left. An account loses events
//! of its largest repository, and a repository those of the user who takes most.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::DbError;
use ferrite_proto::id::RepositoryId;
use tokio::time::Instant;
use tonic::Status;

use super::FeedArgs;
use crate::store::events::EventTable;
use crate::store::eviction;
use crate::store::kept_bytes::{self, Kept, NO_REPOSITORY};
use crate::upstream::Upstream;

const INTERVAL: Duration = Duration::from_secs(60);
/// Interval between checks of all repositories. These find growth by other processes or before a
/// restart.
const FULL_INTERVAL: Duration = Duration::from_secs(3600);
/// Lets writers go first.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
/// Bytes to remove from an account's largest repository before looking for the largest again.
const OWNER_STEP_BYTES: i64 = 4 * 1024 * 1024;

/// The failure of a check, which is repeated later.
#[derive(Debug, thiserror::Error)]
pub(super) enum RetentionError {
    #[error("call to repo-svc failed")]
    Repo(#[source] Box<Status>),
    #[error(transparent)]
    Store(#[from] DbError),
}

#[derive(Clone, Debug)]
pub(crate) struct Retention {
    pub(crate) store: EventTable,
    pub(crate) upstream: Upstream,
    pub(crate) settings: FeedArgs,
    pub(crate) clock: Clock,
}

impl Retention {
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("event retention", async move {
            tokio::select! {
                () = life2.stopping() => {}
                () = self.run() => {}
            }
        });
    }

    async fn run(&self) {
        let mut next_full = Instant::now();
        loop {
            let result = if Instant::now() >= next_full {
                next_full = Instant::now() + FULL_INTERVAL;
                self.look_at_all().await
            } else {
                self.look_at(&self.store.grown().take()).await
            };
            if let Err(error) = result {
                warn(&error);
                // The list of grown repositories is lost, so check all of them.
                next_full = Instant::now();
            }
            tokio::select! {
                () = self.store.grown().grown() => {}
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Enforces the limits of repositories and of the accounts that own them.
    pub(super) async fn look_at(&self, repositories: &[RepositoryId]) -> Result<(), RetentionError> {
        let kept = kept_bytes::find(self.store.db(), repositories).await?;
        self.hold(&kept).await;
        self.report().await
    }

    pub(super) async fn look_at_all(&self) -> Result<(), RetentionError> {
        // Start below [`NO_REPOSITORY`], to include it.
        let mut after = RepositoryId(NO_REPOSITORY.0 - 1);
        loop {
            let kept = kept_bytes::after(self.store.db(), after).await?;
            let Some(last) = kept.last() else { break };
            after = last.repository();
            self.hold(&kept).await;
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        while kept_bytes::forget_snapshots(self.store.db()).await? {
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        self.report().await
    }

    async fn report(&self) -> Result<(), RetentionError> {
        let bytes = kept_bytes::total(self.store.db()).await?;
        metrics::gauge!("ferrite_hook_kept_bytes").set(bytes as f64);
        Ok(())
    }

    /// Enforces the limits of some repositories and their owners. One failure does not stop the
    /// others.
    async fn hold(&self, kept: &[Kept]) {
        for repository in kept {
            self.hold_repository(repository).await.unwrap_or_else(|error| warn(&error));
        }
        let found = self.find_owners(kept).await.unwrap_or_else(|error| {
            warn(&error);
            HashMap::new()
        });
        let owner = |kept: &Kept| found.get(&kept.repository()).copied().unwrap_or(kept.owner_id);
        let owners: BTreeSet<i64> = kept.iter().map(owner).filter(|owner| *owner != 0).collect();
        for owner in owners {
            self.hold_owner(owner).await.unwrap_or_else(|error| warn(&error));
        }
    }

    async fn hold_repository(&self, kept: &Kept) -> Result<(), RetentionError> {
        // Nobody can read the feed of a deleted repository.
        while kept.is_deleted && self.store.empty_feed(kept.repository()).await? {
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        if kept.kept_bytes > self.settings.feed_bytes {
            let excess = kept.kept_bytes - low_mark(self.settings.feed_bytes);
            self.evict(kept.repository(), excess, "repository").await?;
        }
        Ok(())
    }

    async fn hold_owner(&self, owner: i64) -> Result<(), RetentionError> {
        let mut bound = self.settings.owner_bytes;
        loop {
            let (bytes, largest) = kept_bytes::of_owner(self.store.db(), owner).await?;
            let Some(largest) = largest.filter(|_| bytes > bound) else { return Ok(()) };
            bound = low_mark(self.settings.owner_bytes);
            let excess = (bytes - bound).min(OWNER_STEP_BYTES);
            if !self.evict(largest.repository(), excess, "owner").await? {
                return Ok(());
            }
        }
    }

    /// Removes `excess` bytes of a repository's oldest events. Returns false if that is not
    /// possible now.
    async fn evict(
        &self,
        repository: RepositoryId,
        mut excess: i64,
        bound: &'static str,
    ) -> Result<bool, RetentionError> {
        while excess > 0 {
            let Some(removed) = self.evict_batch(repository, excess).await? else {
                tracing::warn!(repo.id = %repository, excess, "events being delivered exceed the size limit of the {bound}");
                return Ok(false);
            };
            excess -= removed;
            metrics::counter!("ferrite_hook_evicted_bytes_total", "bound" => bound).increment(removed.unsigned_abs());
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        Ok(true)
    }

    /// Removes a batch of events, or cancels deliveries that keep some, preferably of the user
    /// whose events take most. Returns the bytes removed, or `None` if nothing can be removed now.
    async fn evict_batch(&self, repository: RepositoryId, bytes: i64) -> Result<Option<i64>, DbError> {
        let (db, now_us) = (self.store.db(), self.clock.now_us());
        for user in [eviction::largest_user(db, repository).await?, None] {
            let removed = eviction::evict(db, repository, user, bytes).await?;
            if removed > 0 || eviction::cancel_waiting(db, repository, user, bytes, now_us).await? > 0 {
                return Ok(Some(removed));
            }
        }
        Ok(None)
    }

    /// Asks repo-svc for missing owners and stores them. They are missing for repositories that
    /// older versions stored.
    async fn find_owners(&self, kept: &[Kept]) -> Result<HashMap<RepositoryId, i64>, RetentionError> {
        let is_unknown = |kept: &&Kept| kept.owner_id == 0 && !kept.is_deleted && kept.repository() != NO_REPOSITORY;
        let mut unknown: Vec<_> = kept.iter().filter(is_unknown).map(Kept::repository).collect();
        if unknown.is_empty() {
            return Ok(HashMap::new());
        }
        // All transactions lock rows of several repositories in this order.
        unknown.sort_unstable();
        let found = self.upstream.repositories(&unknown).await.map_err(|status| RetentionError::Repo(status.into()))?;
        let owners: HashMap<_, _> =
            found.into_iter().filter_map(|(id, repository)| Some((id, repository.owner?.id))).collect();
        let mut tx = self.store.db().begin_relaxed().await?;
        for repository in unknown {
            if let Some(owner) = owners.get(&repository) {
                kept_bytes::set_owner(&mut tx, repository, *owner).await?;
            }
        }
        tx.commit().await?;
        Ok(owners)
    }
}

fn warn(error: &RetentionError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "cannot enforce the size limits of events; will retry");
}

/// Returns the size to shrink to, so that not every further event exceeds the limit again.
fn low_mark(bound: i64) -> i64 {
    bound / 8 * 7
}

#[cfg(test)]
mod tests;
