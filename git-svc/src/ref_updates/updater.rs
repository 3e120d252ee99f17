//! The only way to change refs: intent in the journal, transaction of refs, confirmation together with its event.
//!
//! Not here: permission to change them (`protection`, and the callers), and the choice of refs.

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
    types::{error::GitError, push_options::PushOptions, weak_map::WeakMap},
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::subscribers::{AWAITED, subscribers};
use crate::{
    admission::backlog::Backlogs,
    db::{Journal, JournalEntry, MaintenanceTable, NewBatch, RefTransaction, RepositoryTable, UpdateKind, hex},
    rpc_error::RpcError,
};

/// Longest wait for the lock of a repository.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Response of a write with an idempotency key. Stored in the transaction of the intent, so that a crash after the refs changed
/// does not lose it.
#[derive(Debug)]
pub(crate) struct IdempotentResponse<'a, A> {
    /// The caller's key.
    pub(crate) key: &'a IdempotencyKey,
    /// The response that a repeated call gets.
    pub(crate) message: &'a A,
    /// What is stored of a response that is too large.
    pub(crate) subject: CommitSubject,
}

/// The commit of a response, of which a repeated call gets it anew.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CommitSubject {
    /// Id of the commit.
    #[prost(string, tag = "1")]
    pub(crate) commit_id: String,
    /// Short name of the branch.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) branch: Vec<u8>,
}

/// Write locks by repository. A lock is dropped with its last guard or waiter.
#[derive(Debug, Default)]
struct Locks(WeakMap<RepositoryId, AsyncMutex<()>>);

impl Locks {
    /// Waits for the write lock of a repository, at most 30 seconds.
    ///
    /// # Errors
    /// `Overloaded` when the lock does not become free in time.
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
    /// Takes the lock without recovering what is open.
    pub(super) async fn lock_only(updater: &RefUpdater, id: RepositoryId) -> Self {
        Self { id, _lock: updater.0.locks.acquire(id).await.unwrap() }
    }
}

/// Waits for the delivery of an event to the subscribers that its writer waits for, at most 50 ms. A late event is still delivered.
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
    /// Gets what the repository takes on disk after each write.
    pub(super) backlogs: Backlogs,
    /// Repositories that may have open entries, to be settled before their next write.
    needing_recovery: Mutex<HashSet<RepositoryId>>,
}

/// Change of one ref by a batch that committed.
pub(super) struct AppliedEdit {
    pub(super) name: Vec<u8>,
    pub(super) old: String,
    pub(super) new: String,
}

/// Result of a batch of which at least one edit was applied.
pub(super) struct BatchOutcome {
    pub(super) batch: NewBatch,
    pub(super) kind: UpdateKind,
    pub(super) user: i64,
    pub(super) issue_reach: IssueReach,
    pub(super) options: PushOptions,
    pub(super) done: Vec<AppliedEdit>,
    /// Journal rows of the batch whose edit was not applied.
    pub(super) dropped: Vec<i64>,
    /// State of HEAD and disk usage after the batch, if they were read.
    pub(super) state: Option<(HeadState, DiskUsage)>,
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
        }))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Waits for the write lock of a repository, then settles what a crash or a failure left open in it.
    pub(crate) async fn lock(&self, id: RepositoryId) -> Result<WriteGuard, RpcError> {
        let guard = WriteGuard { id, _lock: self.0.locks.acquire(id).await? };
        if self.0.needs_recovery(id) {
            // Of an earlier request: the precondition of this one is not about it.
            serve(self.recover(&guard)).await?;
        }
        Ok(guard)
    }

    /// Counts the current request as a write, if it is not yet. [`RefUpdater::apply`] does so by itself: this is for a write that is to
    /// be refused earlier.
    ///
    /// # Errors
    /// [`DbError::Refused`] when the account has written as much as it may.
    pub(crate) async fn count_write(&self) -> Result<(), DbError> {
        self.0.db.count_write().await
    }

    /// Applies all edits of a transaction or none. On return, intent and refs are on disk, from which journal and event follow.
    ///
    /// Must run to completion: call it in a task of its own, which a client that disconnects does not cancel.
    ///
    /// # Errors
    /// The refusals of [`Refs::commit`], after which nothing was changed. After any other error the refs may have changed; if
    /// so, recovery sends the event.
    pub(crate) async fn apply<A: Message>(
        &self,
        guard: &WriteGuard,
        change: &RefTransaction,
        response: Option<IdempotentResponse<'_, A>>,
    ) -> Result<DeliveryWait, RpcError> {
        let inner = &self.0;
        // All wait for the disk, so they run concurrently; the refs change only after all.
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
                    tracing::warn!(repo.id = %guard.id, error = %failure, "an update stays open for now");
                }
                return Err(error.into());
            }
        };
        let outcome = BatchOutcome { state, ..BatchOutcome::of(batch, change) };
        let delivered = self.confirm(guard, outcome).await?;
        inner.set_needs_recovery(guard.id, false);
        Ok(delivered)
    }

    /// Records the intent in the journal, together with the response for the idempotency key. From here on the repository counts
    /// as needing recovery until the batch is settled, so that any failure is resolved before the next write.
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
            // The key was free a moment ago and this repository is ours: it was used for another one meanwhile.
            let stored = response.key.store_with_subject(&mut tx, response.message, &response.subject, now).await;
            stored.map_err(|error| if error.is_unique() { IdempotencyError::Reused } else { error.into() })?;
        }
        inner.set_needs_recovery(guard.id, true);
        tx.commit().await?;
        Ok(batch)
    }

    /// Records the initial commit of a new repository in the journal. No ref is changed: the repository was created with the
    /// branch.
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

    /// Settles a batch that was applied: writes rows and events in one database transaction.
    ///
    /// On SQLite its commit does not wait for the disk: if the power fails before the next one that does, such as that of the next intent,
    /// the batch is open again, and recovery at the start confirms it by its refs. Its events have the same ids and refs then, so that
    /// subscribers ignore those that they have.
    pub(super) async fn confirm(&self, guard: &WriteGuard, outcome: BatchOutcome) -> Result<DeliveryWait, RpcError> {
        let inner = &self.0;
        let facts = inner.batch_facts(guard.id, outcome).await?;
        let told: Vec<_> = if facts.batch.is_wiki {
            // No service knows wikis as repositories, but their bytes count for the owner.
            let size = |last: &RefsUpdated| SizeChanged { size_bytes: last.size_bytes, number: last.number };
            facts.events.last().map(size).map(Fact::SizeChanged).into_iter().collect()
        } else {
            facts.events.into_iter().map(Fact::RefsUpdated).collect()
        };
        let now = inner.clock.now_us();
        // A server of PostgreSQL may crash while this process goes on, and nothing would recover the batch.
        let begun = if inner.db.pick(false, true) { inner.db.begin_relaxed() } else { inner.db.begin() };
        let mut tx = begun.await?;
        for row in &facts.dropped {
            Journal::drop_entry(&mut tx, *row, now).await?;
        }
        if Journal::confirm(&mut tx, guard.id, &facts.batch, now).await? == 0 {
            // An earlier confirmation, whose caller was cancelled, has committed meanwhile and wrote the event.
            tx.rollback().await?;
            return Ok(std::future::ready(()).boxed());
        }
        MaintenanceTable::changed(&mut tx, guard.id, facts.batch.number, now).await?;
        let event = |(index, fact)| {
            let to = subscribers(&fact);
            let event_id = outbox::part_uuid(&facts.batch.id, index).to_string();
            (Event { event_id, ..outbox::event(guard.id, now, fact) }, to)
        };
        let mut events: Vec<_> = (0..).zip(told).map(event).collect();
        let Some((event, to)) = events.pop() else {
            tx.commit().await?;
            return Ok(std::future::ready(()).boxed());
        };
        for (event, to) in &events {
            outbox::append(&mut tx, event, to, now).await?;
        }
        let flush = inner.relay.commit(tx, &event, to, AWAITED, now).await?;
        Ok(flush.wait().boxed())
    }

    /// Measures a repository or wiki on disk and publishes its size (bytes) as an event of its own, after something else than an update of
    /// refs changed it. Returns the size.
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
        // Those of one folder stay together.
        objects.sort_unstable_by_key(NewObject::id);
        let parts = objects.chunks(objects.len().div_ceil(PARALLEL_SYNCS)).map(|part| {
            let (store, part) = (Arc::clone(&self.store), part.to_vec());
            self.store.sync_threads().run(move || store.write_objects(id, &part))
        });
        // A folder that an earlier process has made may be new to the disk, too.
        let was_synced = self.store.take_synced(id);
        let has_new_folder = try_join_all(parts).await?.contains(&true);
        if was_synced && !has_new_folder {
            self.store.keep_synced(id);
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        self.store.sync_threads().run(move || store.sync_objects(id)).await
    }

    /// Settles a batch of which nothing was applied.
    async fn drop_batch(&self, id: RepositoryId, batch: &NewBatch) {
        match self.journal.drop_batch(id, batch, self.clock.now_us()).await {
            Ok(()) => self.set_needs_recovery(id, false),
            Err(error) => tracing::warn!(repo.id = %id, %error, "a refused update stays open for now"),
        }
    }
}

impl BatchOutcome {
    pub(super) fn of(batch: NewBatch, change: &RefTransaction) -> Self {
        let done = |edit: &RefEdit| AppliedEdit {
            name: edit.name.as_bytes().to_vec(),
            old: hex(edit.old),
            new: hex(edit.new),
        };
        let done = change.edits.iter().map(done).collect();
        let RefTransaction { kind, user, issue_reach, .. } = *change;
        let (options, dropped) = (change.options.clone(), Vec::new());
        Self { batch, kind, user, issue_reach, options, done, dropped, state: None }
    }
}

impl From<&JournalEntry> for AppliedEdit {
    fn from(entry: &JournalEntry) -> Self {
        Self { name: entry.name.clone(), old: entry.old.clone(), new: entry.new.clone() }
    }
}
