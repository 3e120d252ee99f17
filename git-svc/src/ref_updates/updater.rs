//! The only way to change refs: intent in the journal, ref transaction, confirmation together with
//! its event. Callers have already checked permissions.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ferrite_core::{Clock, writer::serve};
use ferrite_db::{
    Db, DbError,
    idempotency::{IdempotencyError, IdempotencyKey},
};
use ferrite_events as outbox;
use ferrite_events::Relay;
use ferrite_proto::{
    events::{Event, RefsUpdated, SizeChanged, event::Fact},
    git::Merge,
    grant::IssueReach,
    id::RepositoryId,
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, try_join_all},
};
use git_store::{
    disk::{durable::PARALLEL_SYNCS, loose_objects::NewObject, repositories::RepositoryStore, usage::DiskUsage},
    repo::{
        pool::Pool,
        refs::{HeadState, RefEdit, Refs},
    },
    types::{
        error::GitError,
        name::{BranchName, RefName},
        push_options::PushOptions,
        weak_map::WeakMap,
    },
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{
    audit::{AuditContext, RuleRename},
    changed::ChangedRepositories,
    subscribers::{AWAITED, AWAITED_BY_MERGES, subscribers},
};
use crate::{
    admission::backlog::Backlogs,
    db::{
        Journal, JournalEntry, MaintenanceTable, NewBatch, RefTransaction, RenamedBranchTable, RepositoryTable,
        UpdateKind, ZERO, hex,
    },
    rpc_error::RpcError,
};

const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait of a merge until issue-svc shows it. Under load, a delivery takes longer than the
/// usual moment.
const MERGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Response of a write with an idempotency key. It is stored together with the intent, so that a
/// crash after the refs changed does not lose it.
#[derive(Debug)]
pub(crate) struct IdempotentResponse<'a, A> {
    pub(crate) key: &'a IdempotencyKey,
    pub(crate) message: &'a A,
    /// Stored instead of a response that is too large.
    pub(crate) subject: CommitSubject,
}

/// The commit of a response. A repeated call reads it again.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CommitSubject {
    #[prost(string, tag = "1")]
    pub(crate) commit_id: String,
    /// Short name of the branch.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) branch: Vec<u8>,
    /// As in [`git_store::repo::write::PreparedCommit`].
    #[prost(bool, tag = "3")]
    pub(crate) is_update: bool,
}

/// Write locks by repository. A lock is dropped with its last guard or waiter.
#[derive(Debug, Default)]
struct Locks(WeakMap<RepositoryId, AsyncMutex<()>>);

impl Locks {
    /// Waits up to 30 seconds for the write lock of a repository, then fails with `Overloaded`.
    async fn acquire(&self, id: RepositoryId) -> Result<OwnedMutexGuard<()>, GitError> {
        let lock = self.0.get_or_insert_with(id, AsyncMutex::default);
        tokio::time::timeout(LOCK_TIMEOUT, lock.lock_owned()).await.map_err(|_| GitError::Overloaded)
    }
}

/// The write lock of one repository, held until dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard {
    pub(super) id: RepositoryId,
    _lock: OwnedMutexGuard<()>,
}

#[cfg(test)]
impl WriteGuard {
    /// Takes the lock without recovering open entries.
    pub(super) async fn lock_only(updater: &RefUpdater, id: RepositoryId) -> Self {
        Self { id, _lock: updater.0.locks.acquire(id).await.unwrap() }
    }
}

/// Waits up to 50 ms for the delivery of an event to the awaited subscribers, after a merge up to
/// 2 s. Otherwise it is delivered later.
pub(crate) type DeliveryWait = BoxFuture<'static, ()>;

/// Changes refs under the journal. Clones share one state.
#[derive(Clone)]
pub(crate) struct RefUpdater(Arc<Inner>);

pub(super) struct Inner {
    pub(super) db: Db,
    pub(super) clock: Clock,
    pub(super) relay: Relay,
    pub(super) store: Arc<RepositoryStore>,
    pub(super) pool: Pool,
    pub(super) refs: Refs,
    pub(super) journal: Journal,
    pub(super) repositories: RepositoryTable,
    locks: Locks,
    /// Receives the disk usage of the repository after each write.
    pub(super) backlogs: Backlogs,
    /// Repositories that may have open entries, which must be settled before the next write.
    needing_recovery: Mutex<HashSet<RepositoryId>>,
    /// Repositories with a settled update, but no wikis.
    pub(super) changed: ChangedRepositories,
}

/// A changed ref in a committed batch.
pub(super) struct AppliedEdit {
    pub(super) name: Vec<u8>,
    pub(super) old: String,
    pub(super) new: String,
}

/// Result of a batch with at least one applied edit.
pub(super) struct BatchOutcome {
    pub(super) batch: NewBatch,
    pub(super) kind: UpdateKind,
    pub(super) user: i64,
    pub(super) issue_reach: IssueReach,
    pub(super) options: PushOptions,
    pub(super) done: Vec<AppliedEdit>,
    /// Journal rows of edits that were not applied.
    pub(super) dropped: Vec<i64>,
    pub(super) state: Option<(HeadState, DiskUsage)>,
    /// Who asked for the rename of a branch, if it was not interrupted.
    pub(super) by: Option<AuditContext>,
    /// The merge of a pull request.
    pub(super) merge: Option<Merge>,
}

impl RefUpdater {
    /// Creates the updater of the repositories in `store`, with its journal in `db`.
    pub(crate) fn new(
        db: Db,
        clock: Clock,
        relay: Relay,
        store: Arc<RepositoryStore>,
        pool: Pool,
        refs: Refs,
        backlogs: Backlogs,
    ) -> Self {
        let (journal, repositories) = (Journal::new(db.clone()), RepositoryTable::new(db.clone()));
        let (locks, needing_recovery) = (Locks::default(), Mutex::default());
        let changed = ChangedRepositories::default();
        Self(Arc::new(Inner {
            db,
            clock,
            relay,
            store,
            pool,
            refs,
            journal,
            repositories,
            locks,
            backlogs,
            needing_recovery,
            changed,
        }))
    }

    /// Returns the queue of repositories with a settled update. It has one consumer.
    pub(crate) fn changed(&self) -> &ChangedRepositories {
        &self.0.changed
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Waits for the write lock of a repository, then settles open entries left by a crash or a
    /// failure.
    pub(crate) async fn lock(&self, id: RepositoryId) -> Result<WriteGuard, RpcError> {
        let guard = WriteGuard { id, _lock: self.0.locks.acquire(id).await? };
        if self.0.needs_recovery(id) {
            // Recovery belongs to an earlier request, so the precondition of this one does not
            // apply.
            serve(self.recover(&guard)).await?;
        }
        Ok(guard)
    }

    /// Counts the current request as a write, unless it was counted before. [`RefUpdater::apply`]
    /// does so itself; call this to reject a write earlier. Fails with [`DbError::Refused`] if the
    /// account has reached its write limit.
    pub(crate) async fn count_write(&self) -> Result<(), DbError> {
        self.0.db.count_write().await
    }

    /// Applies all edits of a transaction or none. On return, intent and refs are on disk; journal
    /// and event follow from them.
    ///
    /// Must run to completion: call it in its own task, so that a client that disconnects cannot
    /// cancel it.
    ///
    /// If [`Refs::commit`] rejects the edits, nothing was changed. After any other error the refs
    /// may have changed; then recovery sends the event.
    pub(crate) async fn apply<A: Message>(
        &self,
        guard: &WriteGuard,
        change: &RefTransaction,
        response: Option<IdempotentResponse<'_, A>>,
    ) -> Result<DeliveryWait, RpcError> {
        self.apply_by(guard, change, response, None).await
    }

    /// Like [`RefUpdater::apply`], for a transaction of kind [`UpdateKind::Rename`]. A protection
    /// rule with exactly the branch's old name gets the new one, and the old name leads to the new
    /// one, also if the process crashes after the refs changed.
    pub(crate) async fn rename<A: Message>(
        &self,
        guard: &WriteGuard,
        change: &RefTransaction,
        response: Option<IdempotentResponse<'_, A>>,
        by: AuditContext,
    ) -> Result<DeliveryWait, RpcError> {
        self.apply_by(guard, change, response, Some(by)).await
    }

    async fn apply_by<A: Message>(
        &self,
        guard: &WriteGuard,
        change: &RefTransaction,
        response: Option<IdempotentResponse<'_, A>>,
        by: Option<AuditContext>,
    ) -> Result<DeliveryWait, RpcError> {
        let inner = &self.0;
        // All of these wait for the disk, so they run concurrently. The refs change only after all
        // of them.
        let (batch, synced, prepared) = tokio::join!(
            self.record_intent(guard, change, response),
            inner.write(guard.id, &change.objects),
            inner.refs.prepare(guard.id, &change.edits),
        );
        let batch = batch?;
        let prepared = match synced.and(prepared) {
            Ok(prepared) => prepared,
            Err(error) => {
                inner.drop_batch(guard.id, &batch).await;
                return Err(error.into());
            }
        };
        let state = match inner.refs.commit(guard.id, &change.edits, prepared).await {
            Ok(state) => state,
            Err(error) if error.is_refused_transaction() => {
                inner.drop_batch(guard.id, &batch).await;
                return Err(error.into());
            }
            Err(error) => {
                if let Err(failure) = self.recover(guard).await {
                    tracing::warn!(repo.id = %guard.id, error = %failure, "an update will be settled later");
                }
                return Err(error.into());
            }
        };
        let outcome = BatchOutcome { state, by, ..BatchOutcome::of(batch, change) };
        let delivered = self.confirm(guard, outcome).await?;
        inner.set_needs_recovery(guard.id, false);
        Ok(delivered)
    }

    /// Records the intent in the journal, with the response for the idempotency key. From here
    /// until the batch is settled the repository needs recovery, so that any failure is resolved
    /// before the next write.
    pub(super) async fn record_intent<A: Message>(
        &self,
        guard: &WriteGuard,
        change: &RefTransaction,
        response: Option<IdempotentResponse<'_, A>>,
    ) -> Result<NewBatch, RpcError> {
        let inner = &self.0;
        let now = inner.clock.now_us();
        let key = response.as_ref().map(|response| response.key.id());
        let mut tx = inner.db.begin().await?;
        let batch = Journal::record_intent(&mut tx, guard.id, change, key, now).await?;
        let batch = batch.ok_or(GitError::RepositoryNotFound)?;
        if let Some(response) = response {
            // The key was free a moment ago and this repository is locked, so it was used for
            // another repository meanwhile.
            let stored = response.key.store_with_subject(&mut tx, response.message, &response.subject, now).await;
            stored.map_err(|error| if error.is_unique() { IdempotencyError::Reused } else { error.into() })?;
        }
        inner.set_needs_recovery(guard.id, true);
        tx.commit().await?;
        Ok(batch)
    }

    /// Records the initial commit of a new repository in the journal. Changes no ref, because the
    /// repository was created with the branch.
    pub(crate) async fn record_first(&self, guard: &WriteGuard, user: i64) -> Result<(), RpcError> {
        let inner = &self.0;
        let head = inner.refs.head(guard.id).await?;
        let Some(tip) = head.tip else { return Ok(()) };
        let edits = vec![RefEdit { name: head.branch.to_ref(), old: None, new: Some(tip) }];
        let change = RefTransaction::new(UpdateKind::Init, user, edits);
        let batch = self.record_intent::<()>(guard, &change, None).await?;
        // Not awaited: the subscriber (repo-svc) is the caller of this RPC.
        drop(self.confirm(guard, BatchOutcome::of(batch, &change)).await?);
        inner.set_needs_recovery(guard.id, false);
        Ok(())
    }

    /// Settles an applied batch: writes rows and events in one database transaction.
    ///
    /// On SQLite this commit does not wait for the disk. If the power fails before the next commit
    /// that does, such as that of the next intent, the batch is open again, and recovery at the
    /// start confirms it from its refs. Its events then have the same ids and refs, so subscribers
    /// ignore those they already have.
    pub(super) async fn confirm(&self, guard: &WriteGuard, outcome: BatchOutcome) -> Result<DeliveryWait, RpcError> {
        let inner = &self.0;
        let renamed = outcome.renamed();
        let rename = match &renamed {
            Some(names) => {
                let by = outcome.by.clone().unwrap_or_else(|| AuditContext::of_user(outcome.user));
                RuleRename::find(&inner.db, guard.id, names, by).await?
            }
            None => None,
        };
        let is_merge = outcome.merge.is_some();
        let facts = inner.batch_facts(guard.id, outcome).await?;
        let told: Vec<_> = if facts.batch.is_wiki {
            // Wikis emit no ref events, but their bytes count for the owner.
            let size = |last: &RefsUpdated| SizeChanged { size_bytes: last.size_bytes, number: last.number };
            facts.events.last().map(size).map(Fact::SizeChanged).into_iter().collect()
        } else {
            facts.events.into_iter().map(Fact::RefsUpdated).collect()
        };
        let now = inner.clock.now_us();
        // PostgreSQL may crash while this process goes on, and then nothing would recover the
        // batch.
        let begun = if inner.db.pick(false, true) { inner.db.begin_relaxed() } else { inner.db.begin() };
        let mut tx = begun.await?;
        for row in &facts.dropped {
            Journal::drop_entry(&mut tx, *row, now).await?;
        }
        if Journal::confirm(&mut tx, guard.id, &facts.batch, now).await? == 0 {
            // An earlier confirmation, whose caller was cancelled, has committed meanwhile and
            // wrote the event.
            tx.rollback().await?;
            return Ok(std::future::ready(()).boxed());
        }
        MaintenanceTable::changed(&mut tx, guard.id, facts.batch.number, now).await?;
        if let Some(names) = &renamed {
            RenamedBranchTable::record(&mut tx, guard.id, names, now).await?;
        }
        let event = |(index, fact)| {
            let to = subscribers(&fact);
            let event_id = outbox::part_uuid(&facts.batch.id, index).to_string();
            (Event { event_id, ..outbox::event(guard.id, now, fact) }, to)
        };
        if let Some(rename) = rename
            && rename.store(&mut tx, guard.id, now).await?
        {
            for part in (-2..0).zip(rename.facts()) {
                let (event, to) = event(part);
                outbox::append(&mut tx, &event, to, now).await?;
            }
        }
        let mut events: Vec<_> = (0..).zip(told).map(event).collect();
        let Some((event, to)) = events.pop() else {
            tx.commit().await?;
            return Ok(std::future::ready(()).boxed());
        };
        for (event, to) in &events {
            outbox::append(&mut tx, event, to, now).await?;
        }
        let awaited = if is_merge { AWAITED_BY_MERGES } else { AWAITED };
        let flush = inner.relay.commit(tx, &event, to, awaited, now).await?;
        if !facts.batch.is_wiki {
            inner.changed.note(guard.id);
        }
        Ok(if is_merge { flush.wait_at_most(MERGE_TIMEOUT).boxed() } else { flush.wait().boxed() })
    }

    /// Measures a repository or wiki and publishes its size in a separate event, after something
    /// other than a ref update changed it. Returns the size in bytes.
    pub(crate) async fn publish_size(&self, guard: &WriteGuard) -> Result<u64, RpcError> {
        let (inner, id) = (&self.0, guard.id);
        let size = inner.pool.run_blocking(move |store| store.measure(id)).await?.bytes;
        let row = inner.repositories.find(id).await?.filter(|row| !row.deleted);
        let Some(row) = row else { return Ok(size) };
        let size_bytes = i64::try_from(size).unwrap_or(i64::MAX);
        let fact = Fact::SizeChanged(SizeChanged { size_bytes, number: row.last_number });
        let mut tx = inner.db.begin().await?;
        self.announce(&mut tx, id, fact).await?;
        tx.commit().await?;
        self.wake_relay();
        Ok(size)
    }
}

impl Inner {
    fn needs_recovery(&self, id: RepositoryId) -> bool {
        self.needing_recovery.lock().contains(&id)
    }

    pub(super) fn set_needs_recovery(&self, id: RepositoryId, needed: bool) {
        let mut needing_recovery = self.needing_recovery.lock();
        if needed {
            needing_recovery.insert(id)
        } else {
            needing_recovery.remove(&id)
        };
    }

    pub(super) fn needing_recovery(&self) -> Vec<RepositoryId> {
        self.needing_recovery.lock().iter().copied().collect()
    }

    /// Writes objects durably, several at a time, and counts them.
    async fn write(&self, id: RepositoryId, objects: &[NewObject]) -> Result<(), GitError> {
        if objects.is_empty() {
            return Ok(());
        }
        let mut objects = objects.to_vec();
        // Keeps objects of the same directory together.
        objects.sort_unstable_by_key(NewObject::id);
        let parts = objects.chunks(objects.len().div_ceil(PARALLEL_SYNCS)).map(|part| {
            let (store, part) = (Arc::clone(&self.store), part.to_vec());
            self.store.sync_threads().run(move || store.write_objects(id, &part))
        });
        // A directory created by an earlier process may not be on disk yet.
        let was_synced = self.store.take_synced(id);
        let has_new_folder = try_join_all(parts).await?.contains(&true);
        if was_synced && !has_new_folder {
            self.store.keep_synced(id);
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        self.store.sync_threads().run(move || store.sync_objects(id)).await
    }

    /// Settles a batch if none of its updates was applied.
    async fn drop_batch(&self, id: RepositoryId, batch: &NewBatch) {
        match self.journal.drop_batch(id, batch, self.clock.now_us()).await {
            Ok(()) => self.set_needs_recovery(id, false),
            Err(error) => {
                tracing::warn!(repo.id = %id, %error, "a rejected update will be settled later");
            }
        }
    }
}

impl BatchOutcome {
    /// Returns the old and the new name of a renamed branch.
    fn renamed(&self) -> Option<(BranchName, BranchName)> {
        let branch = |edit: &AppliedEdit| RefName::parse(&edit.name).ok()?.branch();
        let deleted = || self.done.iter().find(|edit| edit.new == ZERO);
        let created = || self.done.iter().find(|edit| edit.old == ZERO);
        (self.kind == UpdateKind::Rename).then(|| Some((branch(deleted()?)?, branch(created()?)?))).flatten()
    }

    pub(super) fn of(batch: NewBatch, change: &RefTransaction) -> Self {
        let done = |edit: &RefEdit| AppliedEdit {
            name: edit.name.as_bytes().to_vec(),
            old: hex(edit.old),
            new: hex(edit.new),
        };
        let done = change.edits.iter().map(done).collect();
        let RefTransaction { kind, user, issue_reach, .. } = *change;
        let (options, dropped, merge) = (change.options.clone(), Vec::new(), change.merge.clone());
        Self { batch, kind, user, issue_reach, options, done, dropped, state: None, by: None, merge }
    }
}

impl From<&JournalEntry> for AppliedEdit {
    fn from(entry: &JournalEntry) -> Self {
        Self { name: entry.name.clone(), old: entry.old.clone(), new: entry.new.clone() }
    }
}
