//! Settles journal entries left open by a crash, by a failure that made the result of a transaction
//! uncertain, or by a power loss that undid their confirmation.
//!
//! An entry is confirmed or dropped by comparing the ref with the recorded old and new ids.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use git_store::{repo::refs, types::name::RefName};

use super::updater::{AppliedEdit, BatchOutcome, RefUpdater, WriteGuard};
use crate::{
    db::{JournalEntry, MaintenanceTable, MergeTable, NewBatch, UpdateKind, hex},
    rpc_error::RpcError,
};

/// How long a git process may outlive the service that started it, in microseconds.
const ORPHAN_LIFETIME_US: i64 = 1_000_000;
/// A recovered repository is not checked again within this time: a day, in microseconds.
const RECHECK_AFTER_US: i64 = 24 * 3600 * 1_000_000;
/// Interval of attempts to settle open entries.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);
/// How long settled rows are kept for operators: 30 days, in microseconds.
const JOURNAL_RETENTION_US: i64 = 30 * 24 * 3600 * 1_000_000;

/// Settles the open entries of all repositories of this store. If that fails for a repository, it
/// is recovered before its next write.
pub(crate) async fn recover_at_start(updater: &RefUpdater) -> Result<(), RpcError> {
    let inner = updater.inner();
    let mut open = inner.journal.open_repositories(inner.store.name()).await?;
    open.extend(inner.repositories.with_new_head(inner.store.name()).await?);
    for id in open {
        inner.set_needs_recovery(id, true);
        if let Err(error) = updater.lock(id).await {
            tracing::warn!(repo.id = %id, %error, cause = error.causes(), "cannot settle open updates yet");
        }
    }
    Ok(())
}

/// Deletes rows settled more than 30 days ago, once an hour, until the process stops.
pub(crate) async fn purge_in_background(updater: RefUpdater, life: Lifecycle) {
    while !life.is_stopping() {
        let inner = updater.inner();
        if let Err(error) = inner.journal.purge(inner.clock.now_us() - JOURNAL_RETENTION_US).await {
            tracing::warn!(%error, "cannot purge the journal");
        }
        life.pause(PURGE_INTERVAL).await;
    }
}

/// Retries the recovery of all repositories that need one, every 2 seconds, until the process
/// stops.
pub(crate) async fn recover_in_background(updater: RefUpdater, life: Lifecycle) {
    while life.pause(RETRY_INTERVAL).await {
        for id in updater.inner().needing_recovery() {
            if let Err(error) = updater.lock(id).await {
                tracing::warn!(repo.id = %id, %error, cause = error.causes(), "cannot settle open updates yet");
            }
        }
    }
}

impl RefUpdater {
    /// Settles the open entries of a repository by the current values of its refs. Schedules an
    /// object check if there were any. The caller must hold the write lock.
    pub(super) async fn recover(&self, guard: &WriteGuard) -> Result<(), RpcError> {
        let inner = self.inner();
        inner.repositories.wait_for_numbers(guard.id).await?;
        let entries = inner.journal.open(guard.id).await?;
        wait_for_orphans(&entries, inner.clock.now_us()).await;
        self.remove_locks(guard, &entries).await?;
        inner.refs.forget(guard.id);
        for entries in entries.chunk_by(|one, other| one.batch == other.batch) {
            self.recover_batch(guard, entries).await?;
        }
        self.recover_head(guard).await?;
        if !entries.is_empty() {
            // The same crash or failure may also have damaged objects.
            let maintenance = MaintenanceTable::new(inner.db.clone());
            maintenance.mark_suspect(guard.id, inner.clock.now_us() - RECHECK_AFTER_US).await?;
        }
        inner.set_needs_recovery(guard.id, false);
        Ok(())
    }

    /// Removes the lock files of these refs. The process that held them has ended.
    async fn remove_locks(&self, guard: &WriteGuard, entries: &[JournalEntry]) -> Result<(), RpcError> {
        let names: Vec<_> = entries.iter().filter_map(|entry| RefName::parse(&entry.name).ok()).collect();
        let id = guard.id;
        let removed = self.inner().pool.run_blocking(move |store| {
            refs::remove_locks(&store.path(id), &names);
            Ok(())
        });
        Ok(removed.await?)
    }

    /// Settles one update: confirms the applied entries with their event, and drops the others.
    async fn recover_batch(&self, guard: &WriteGuard, entries: &[JournalEntry]) -> Result<(), RpcError> {
        let Some(first) = entries.first() else { return Ok(()) };
        let inner = self.inner();
        let (mut done, mut dropped) = (Vec::new(), Vec::new());
        for entry in entries {
            if self.was_applied(guard.id, entry).await? {
                done.push(AppliedEdit::from(entry));
            } else {
                dropped.push(entry.id);
            }
        }
        tracing::info!(repo.id = %guard.id, confirmed = done.len(), dropped = dropped.len(), "settled an open update");
        let is_wiki = inner.repositories.find(guard.id).await?.is_some_and(|row| row.is_wiki);
        let batch = NewBatch { id: first.batch.clone(), number: first.number, is_wiki };
        if done.is_empty() {
            return Ok(inner.journal.drop_batch(guard.id, &batch, inner.clock.now_us()).await?);
        }
        let options = entries.iter().find_map(|entry| entry.options.clone()).unwrap_or_default();
        let JournalEntry { kind, user, issue_reach, .. } = *first;
        let (state, by) = (None, None);
        let merge = match kind {
            UpdateKind::Merge => MergeTable::new(inner.db.clone()).of_batch(guard.id, &batch.id).await?,
            _ => None,
        };
        let outcome = BatchOutcome { batch, kind, user, issue_reach, options, done, dropped, state, by, merge };
        drop(self.confirm(guard, outcome).await?);
        inner.relay.wake();
        Ok(())
    }

    /// Returns whether the change of an open entry reached its ref.
    async fn was_applied(&self, id: RepositoryId, entry: &JournalEntry) -> Result<bool, RpcError> {
        let inner = self.inner();
        // An invalid name or a deleted repository means that no ref was changed.
        let Ok(name) = RefName::parse(&entry.name) else { return Ok(false) };
        if !inner.store.exists(id) {
            return Ok(false);
        }
        let now = hex(inner.refs.resolve(id, name).await?);
        if now == entry.new {
            return Ok(true);
        }
        Ok(now != entry.old && inner.journal.is_followed(id, entry).await?)
    }
}

/// Waits until git processes that may have outlived the service have ended: one second after the
/// newest entry was written.
async fn wait_for_orphans(entries: &[JournalEntry], now_us: i64) {
    let newest = entries.iter().map(|entry| entry.created_us).max().unwrap_or(0);
    let left = (newest + ORPHAN_LIFETIME_US - now_us).clamp(0, ORPHAN_LIFETIME_US);
    tokio::time::sleep(Duration::from_micros(left.unsigned_abs())).await;
}
