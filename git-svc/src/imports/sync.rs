//! One sync of a mirror: look at the remote, fetch what is new, apply the difference like a push.

use std::{cmp::Ordering, collections::HashSet, path::Path};

use ferrite_proto::id::RepositoryId;
use git_store::{
    repo::{
        refs,
        refs::{RefEdit, RefTable, clashes_with_set},
    },
    types::name::{BranchName, RefName},
};
use git2::Oid;
use tokio::time::Instant;

use super::{
    ImportService,
    advertisement::{RemoteRefs, TAKEN_REFS},
    error::FetchError,
    fetch::FetchPlan,
    job::is_storable,
    mirror_changed,
    progress::Progress,
    remote::Remote,
    schedule::next_sync_us,
};
use crate::{
    db::{MirrorRow, MirrorTable, RefTransaction, UpdateKind},
    maintenance::running::JobHandle,
    ref_updates::WriteGuard,
    rpc_error::RpcError,
};

/// Refs changed per transaction; see `transfer::push`.
const REFS_PER_TRANSACTION: usize = 1000;
/// Attempts of a sync whose remote keeps changing.
const MAX_ATTEMPTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Unchanged,
    Changed,
}

impl ImportService {
    /// Syncs a mirror. Records and announces the outcome.
    pub(super) async fn sync(&self, job: JobHandle, row: MirrorRow) {
        let start = Instant::now();
        let outcome = self.run_sync(&job, &row).await;
        let label = match &outcome {
            Ok(SyncOutcome::Unchanged) => "unchanged",
            Ok(SyncOutcome::Changed) => "changed",
            Err(error) => error.label(),
        };
        metrics::counter!("ferrite_git_mirror_syncs_total", "result" => label).increment(1);
        let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(repo.id = row.repository_id, outcome = label, elapsed_ms, "mirror sync");
        let error = match outcome {
            Ok(_) => None,
            Err(FetchError::Stopped) => return,
            Err(error) => Some(error),
        };
        if let Err(error) = self.record_sync(&row, error.as_ref()).await {
            tracing::warn!(repo.id = row.repository_id, %error, cause = error.causes(), "cannot record a sync");
            self.pause_before_retry(&job).await;
        }
    }

    /// Records and announces how a sync ended, and when the next one is due. The row is gone if the
    /// mirror was deleted meanwhile.
    async fn record_sync(&self, row: &MirrorRow, error: Option<&FetchError>) -> Result<(), RpcError> {
        if let Some(error) = error {
            error.log();
        }
        // The interval may have changed meanwhile.
        let Some(current) = self.mirrors.find(row.id()).await? else { return Ok(()) };
        let now = self.clock.now_us();
        let failures = error.map_or(0, |_| current.failure_count + 1);
        let next = next_sync_us(now, current.interval_secs, failures);
        let mut tx = self.db.begin().await?;
        let recorded = match error {
            None => MirrorTable::synced(&mut tx, row.id(), next, now).await?,
            Some(error) => MirrorTable::failed(&mut tx, row.id(), next, &error.to_string()).await?,
        };
        if let Some(row) = recorded {
            self.updater.announce(&mut tx, row.id(), mirror_changed(&row)).await?;
        }
        tx.commit().await?;
        self.updater.wake_relay();
        Ok(())
    }

    async fn run_sync(&self, job: &JobHandle, row: &MirrorRow) -> Result<SyncOutcome, FetchError> {
        let id = row.id();
        let found = self.unless_stopped(job, self.repositories.find(id)).await?;
        if found.is_none_or(|row| row.deleted) || !self.store.exists(id) {
            // Record a failure, so that other mirrors of the account get their turn.
            return Err(FetchError::Broken);
        }
        let (policy, protocols) = (self.client.policy(), self.options.protocols);
        let sealed = row.credentials.as_deref();
        let remote = Remote::stored(id, &row.url, sealed, &self.sealer, policy, protocols)?;
        let sync = Sync { job, user: row.user_id, begin: Instant::now() };
        let outcome = self.follow(&sync, id, &remote).await?;
        if let (Some(id), Some(remote)) = (row.wiki(), remote.wiki())
            && let Err(error) = self.follow(&sync, id, &remote).await
        {
            // A wiki that is switched off at the remote stays as it was.
            tracing::info!(repo.id = row.repository_id, reason = error.label(), "the wiki of a mirror was not synced");
            error.log();
        }
        Ok(outcome)
    }

    async fn follow(&self, sync: &Sync<'_>, id: RepositoryId, remote: &Remote) -> Result<SyncOutcome, FetchError> {
        for attempt in 1.. {
            let (remote, remote_refs) = self.unless_stopped(sync.job, self.discovery.discover(remote)).await?;
            match self.follow_once(sync, id, &remote, &remote_refs).await {
                Err(FetchError::Changed) if attempt < MAX_ATTEMPTS => {}
                outcome => return outcome,
            }
        }
        Err(FetchError::Changed)
    }

    async fn follow_once(
        &self,
        sync: &Sync<'_>,
        id: RepositoryId,
        remote: &Remote,
        remote_refs: &RemoteRefs,
    ) -> Result<SyncOutcome, FetchError> {
        let table = self.refs.table(id).await?;
        let head = self.refs.head(id).await?.branch;
        let edits = difference(&table, &remote_refs.refs);
        // The same choice as at the import. If the remote names no branch, the current one is
        // preferred.
        let new_head = remote_refs.default_branch(&head);
        if edits.is_empty() && new_head == head {
            return Ok(SyncOutcome::Unchanged);
        }
        let known: HashSet<Oid> = taken(&table).map(|entry| entry.target).collect();
        drop(table);
        let mut wants: Vec<_> = edits.iter().filter_map(|edit| edit.new).filter(|id| !known.contains(id)).collect();
        wants.sort_unstable();
        wants.dedup();
        if !wants.is_empty() {
            self.receive(sync, id, remote, &wants).await?;
        }
        self.check_refs(id, &edits).await?;
        let guard = self.unless_stopped(sync.job, self.updater.lock(id)).await?;
        self.apply(id, &guard, sync.user, edits, (new_head != head).then_some(new_head)).await?;
        Ok(SyncOutcome::Changed)
    }

    /// Receives objects into a quarantine, checks them, and moves them into the repository.
    async fn receive(
        &self,
        sync: &Sync<'_>,
        id: RepositoryId,
        remote: &Remote,
        wants: &[Oid],
    ) -> Result<(), FetchError> {
        let size = self.pool.run_blocking(move |store| store.size(id)).await?;
        let limit = self.fetch_limit(id, self.options.max_bytes.saturating_sub(size));
        let limit = sync.job.unless_stopped(limit).await.ok_or(FetchError::Stopped)?;
        let progress = Progress::new(limit.bytes);
        let quarantine = self.pool.run_blocking(move |store| store.begin_quarantine(id)).await?;
        let received = self.receive_into(sync, id, remote, wants, &progress, &quarantine).await;
        self.remove(quarantine).await;
        received.map_err(|error| match limit.explain(error) {
            FetchError::TooLarge { .. } => FetchError::TooLarge { limit: self.options.max_bytes },
            error => error,
        })
    }

    async fn receive_into(
        &self,
        sync: &Sync<'_>,
        id: RepositoryId,
        remote: &Remote,
        wants: &[Oid],
        progress: &Progress,
        quarantine: &Path,
    ) -> Result<(), FetchError> {
        let repository = self.store.path(id);
        let (repository, begin) = (repository.as_path(), sync.begin);
        let plan = FetchPlan { id, remote, repository, quarantine: Some(quarantine), wants, begin };
        self.fetch(&plan, progress, sync.job).await?;
        let folder = quarantine.to_owned();
        Ok(self.pool.run_blocking(move |store| store.adopt_packs(id, &folder)).await?)
    }

    /// Rejects refs with missing objects or objects of the wrong kind, before changing any ref.
    async fn check_refs(&self, id: RepositoryId, edits: &[RefEdit]) -> Result<(), FetchError> {
        let new: Vec<_> = edits.iter().filter_map(|edit| Some((edit.name.clone(), edit.new?))).collect();
        let check = move |repo: &git2::Repository| {
            let found = refs::describe(repo, &new)?;
            Ok(found.iter().all(|entry| entry.as_ref().is_some_and(is_storable)))
        };
        if self.pool.run(id, check).await? { Ok(()) } else { Err(FetchError::BadRefs) }
    }

    /// Applies the difference in transactions like those of pushes. Points HEAD to its new branch
    /// before the old one is deleted.
    async fn apply(
        &self,
        id: RepositoryId,
        guard: &WriteGuard,
        user: i64,
        edits: Vec<RefEdit>,
        new_head: Option<BranchName>,
    ) -> Result<(), FetchError> {
        let (set, deleted): (Vec<_>, Vec<_>) = edits.into_iter().partition(|edit| edit.new.is_some());
        // Delete refs that conflict with new ones first.
        let (in_the_way, deleted) = {
            let clashes = clashes_with_set(set.iter());
            deleted.into_iter().partition(|edit| clashes(&edit.name))
        };
        self.apply_all(guard, user, in_the_way).await?;
        self.apply_all(guard, user, set).await?;
        if let Some(branch) = new_head
            && self.refs.resolve(id, branch.to_ref()).await?.is_some()
        {
            self.updater.set_default_branch(guard, branch).await?;
        }
        self.apply_all(guard, user, deleted).await
    }

    async fn apply_all(&self, guard: &WriteGuard, user: i64, edits: Vec<RefEdit>) -> Result<(), FetchError> {
        for edits in edits.chunks(REFS_PER_TRANSACTION) {
            let change = RefTransaction::new(UpdateKind::Mirror, user, edits.to_vec());
            // Not awaited: no client waits for the subscribers.
            drop(self.updater.apply::<()>(guard, &change, None).await?);
        }
        self.updater.wake_relay();
        Ok(())
    }
}

/// Shared by the steps of one sync.
struct Sync<'a> {
    job: &'a JobHandle,
    user: i64,
    begin: Instant,
}

/// Returns the refs that a mirror follows, sorted by name.
fn taken(table: &RefTable) -> impl Iterator<Item = &refs::RefEntry> {
    let mut spans = TAKEN_REFS.map(|prefix| table.span(prefix.as_bytes()));
    spans.sort_by_key(|span| span.start);
    spans.into_iter().flat_map(|span| table.rows(span))
}

/// Returns the edits that make a repository's followed refs equal to its remote's. Both are sorted
/// by name.
fn difference(table: &RefTable, remote: &[(RefName, Oid)]) -> Vec<RefEdit> {
    let edit = |name: &RefName, old, new| RefEdit { name: name.clone(), old, new };
    let (mut own, mut other, mut edits) = (taken(table).peekable(), remote.iter().peekable(), Vec::new());
    loop {
        let order = match (own.peek(), other.peek()) {
            (None, None) => return edits,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(entry), Some((name, _))) => entry.name.cmp(name),
        };
        let entry = if order.is_le() { own.next() } else { None };
        let listed = if order.is_ge() { other.next() } else { None };
        match (entry, listed) {
            (Some(entry), Some((_, id))) if entry.target == *id => {}
            (Some(entry), listed) => edits.push(edit(&entry.name, Some(entry.target), listed.map(|(_, id)| *id))),
            (None, Some((name, id))) => edits.push(edit(name, None, Some(*id))),
            (None, None) => return edits,
        }
    }
}
