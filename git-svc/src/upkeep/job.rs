//! One job: a look at a repository, and what it needs. Pushes go on meanwhile: only packing refs takes their lock, for a moment.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use ferrite_proto::id::RepositoryId;

use super::{
    Upkeep,
    plan::{Plan, Repack, next_us},
    running::Slot,
};
use crate::{
    command::Chore,
    error::GitError,
    failure::Failure,
    layout::Store,
    measure::{Measure, loose_refs},
    refs,
    store::Upkept,
    write::durable::sync_all,
};

/// The file in a repository that is locked while git works on it for us, even after a crash of this service.
const HOLD: &str = "upkeep";
/// Files that only upkeep makes: nobody has them while it does not run.
const OWN_LOCKS: &[&str] = &["pack/multi-pack-index.lock", "info/commit-graph.lock"];
/// How long refs may be packed, while nobody can change them.
const REFS_DEADLINE: Duration = Duration::from_secs(30);
/// Times a repack is tried while pushes come in between.
pub(super) const TRIES: usize = 4;
/// The longest pause after failures. The first one is the pause between two looks, and each is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How a job ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There was nothing to do.
    Idle,
    /// A process of a service before this one still works there.
    Busy,
    /// It was told to.
    Stopped,
    /// All was done.
    Done,
}

/// What a look at a repository found.
struct Look {
    hold: fs::File,
    measure: Measure,
    loose_refs: u64,
}

/// For `?` on the way out of a job that must end.
pub(super) enum Halt {
    Stopped,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Upkeep {
    /// Looks at a repository and does what it needs.
    pub(super) async fn look_after(&self, row: Upkept) {
        let Some(slot) = self.running.begin(RepositoryId(row.repository_id)) else { return };
        let id = slot.id;
        let recorded = match self.attend(&slot, row).await {
            Ok(Ended::Busy) => self.maintenance.later(id, self.after(self.options.interval)).await,
            Ok(Ended::Idle | Ended::Stopped | Ended::Done) => Ok(()),
            Err(failure) => {
                tracing::warn!(repo.id = %id, error = %failure, failures = row.failures + 1, "upkeep failed");
                if matches!(failure, Failure::Git(GitError::Command { .. })) {
                    self.doubt(id).await;
                }
                let doubled = self.options.interval.saturating_mul(1 << row.failures.clamp(0, 16));
                self.maintenance.failed(id, self.after(doubled.min(LONGEST_PAUSE))).await
            }
        };
        if let Err(error) = recorded {
            tracing::warn!(repo.id = %id, %error, "upkeep cannot be recorded");
        }
    }

    pub(super) fn after(&self, pause: Duration) -> i64 {
        self.clock.now_us().saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
    }

    /// The job, without its record of failures.
    pub(super) async fn attend(&self, slot: &Slot, row: Upkept) -> Result<Ended, Failure> {
        let id = slot.id;
        // Whoever deletes a repository records that first, and ends jobs after.
        if self.repositories.find(id).await?.is_none_or(|placed| placed.deleted) || !self.store.exists(id) {
            return Ok(Ended::Idle);
        }
        let (limit, percent) = (self.options.loose_refs, self.options.cruft_percent);
        let Some(look) = self.pool.run_blocking(move |store| look(store, id, limit, percent)).await? else {
            return Ok(Ended::Busy);
        };
        let plan = Plan::of(&row, &look.measure, look.loose_refs, &self.options, self.clock.now_us());
        if plan.is_empty() {
            let next = next_us(&row, &look.measure, &self.options);
            self.maintenance.done(&row, row.number, next).await?;
            return Ok(Ended::Idle);
        }
        let start = Instant::now();
        let outcome = self.carry_out(slot, plan, row, &look).await;
        let name = match &outcome {
            Ok(()) => "ok",
            Err(Halt::Stopped) => "stopped",
            Err(Halt::Failed(Failure::Git(GitError::TimedOut { .. }))) => "timed_out",
            Err(Halt::Failed(_)) => "failed",
        };
        let (kind, elapsed) = (plan.kind(), start.elapsed());
        metrics::counter!("ferrite_git_upkeep_jobs_total", "kind" => kind, "outcome" => name).increment(1);
        metrics::histogram!("ferrite_git_upkeep_duration_seconds", "kind" => kind).record(elapsed);
        let (packs, loose, bytes) = (look.measure.packs.len(), look.measure.loose, look.measure.bytes);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(repo.id = %id, kind, refs = plan.refs, outcome = name, elapsed_ms, packs, loose, bytes, "upkeep");
        match outcome {
            Ok(()) => Ok(Ended::Done),
            Err(Halt::Stopped) => Ok(Ended::Stopped),
            Err(Halt::Failed(failure)) => Err(failure),
        }
    }

    async fn carry_out(&self, slot: &Slot, plan: Plan, mut row: Upkept, look: &Look) -> Result<(), Halt> {
        let (id, age) = (slot.id, self.abandoned);
        if plan.check {
            self.check(slot, &mut row, &look.hold).await?;
        }
        if !plan.changes() {
            let next = next_us(&row, &look.measure, &self.options);
            return Ok(self.maintenance.done(&row, row.number, next).await?);
        }
        self.pool
            .run_blocking(move |store| {
                store.tidy(id, age);
                Ok(())
            })
            .await?;
        if plan.refs {
            self.pack_refs(slot, &look.hold).await?;
        }
        match plan.repack {
            None => {}
            Some(Repack::Loose) => self.chore(slot, Chore::PackLoose, &look.hold).await?,
            Some(Repack::Geometric) => self.chore(slot, Chore::Geometric, &look.hold).await?,
            Some(Repack::Full) => self.full(slot, look).await?,
        }
        if plan.graph && plan.repack != Some(Repack::Full) {
            self.chore(slot, Chore::CommitGraph, &look.hold).await?;
        }
        let measure = self.settle(slot).await?;
        let now = self.clock.now_us();
        if matches!(plan.repack, Some(Repack::Geometric | Repack::Full)) {
            (row.packed_number, row.packed_us) = (row.number, now);
        }
        if plan.repack == Some(Repack::Full) {
            (row.full_number, row.full_us) = (row.number, now);
        }
        if plan.repack.is_some() {
            row.graph_number = row.number;
            row.loose_left = i64::try_from(measure.loose).unwrap_or(i64::MAX);
        }
        let next = next_us(&row, &measure, &self.options);
        Ok(self.maintenance.done(&row, row.number, next).await?)
    }

    /// Runs git to its end, or ends it when the job must end. A repack that lost a race against a push runs again.
    async fn chore(&self, slot: &Slot, chore: Chore<'_>, hold: &fs::File) -> Result<(), Halt> {
        for _ in 1..TRIES {
            match self.chore_within(slot, chore, hold, self.options.deadline).await {
                Err(Halt::Failed(failure)) if has_lost_a_race(&failure) => {
                    tracing::debug!(repo.id = %slot.id, error = %failure, "repacking again");
                }
                outcome => return outcome,
            }
        }
        self.chore_within(slot, chore, hold, self.options.deadline).await
    }

    pub(super) async fn chore_within(
        &self,
        slot: &Slot,
        chore: Chore<'_>,
        hold: &fs::File,
        deadline: Duration,
    ) -> Result<(), Halt> {
        let child = self.git.chore(&self.store.path(slot.id), chore, hold)?;
        if child.finish_unless(slot.stopped(), deadline).await? { Ok(()) } else { Err(Halt::Stopped) }
    }

    async fn pack_refs(&self, slot: &Slot, hold: &fs::File) -> Result<(), Halt> {
        let id = slot.id;
        let _guard = self.locked(slot).await?;
        self.pool.run_blocking(move |store| Ok(refs::remove_stale_lock(&store.path(id)))).await?;
        self.chore_within(slot, Chore::PackRefs, hold, REFS_DEADLINE).await
    }

    /// The repository's write lock. Whoever has it may be waiting for this very job to end.
    async fn locked(&self, slot: &Slot) -> Result<crate::work::WriteGuard, Halt> {
        tokio::select! {
            () = slot.stopped() => Err(Halt::Stopped),
            guard = self.writer.lock(slot.id) => Ok(guard?),
        }
    }

    /// Packs everything anew. The commit-graph comes first: written now, it names no commit that will have expired.
    async fn full(&self, slot: &Slot, look: &Look) -> Result<(), Halt> {
        let id = slot.id;
        let before = self.number(slot).await?;
        self.chore(slot, Chore::CommitGraph, &look.hold).await?;
        if look.measure.loose > 0 {
            // What is loose and not in use counts as touched now.
            self.chore(slot, Chore::Geometric, &look.hold).await?;
        }
        let bytes = look.measure.bytes;
        let trash = self.pool.run_blocking(move |store| {
            check_room(store, bytes)?;
            touch_packs(&store.path(id))?;
            store.make_trash(id)
        });
        let trash = trash.await?;
        let chore = Chore::Full { expire: self.options.expire_after, expired: &trash };
        let outcome = self.chore(slot, chore, &look.hold).await;
        let path = self.store.path(id);
        if outcome.is_err() {
            // Nobody knows how far it came.
            self.pool.run_blocking(move |_| settle_trash(&trash, &path, true)).await?;
            return outcome;
        }
        let _guard = self.locked(slot).await?;
        let changed = self.number(slot).await? != before;
        Ok(self.pool.run_blocking(move |_| settle_trash(&trash, &path, changed)).await?)
    }

    pub(super) async fn number(&self, slot: &Slot) -> Result<i64, Halt> {
        let placed = self.repositories.find(slot.id).await?;
        placed.map(|placed| placed.last_number).ok_or(Halt::Stopped)
    }

    /// Makes what was done durable and tells the new size.
    async fn settle(&self, slot: &Slot) -> Result<Measure, Halt> {
        let id = slot.id;
        self.pool
            .run_blocking(move |store| {
                let path = store.path(id);
                sync_all(&[path.join("objects/pack"), path.join("objects/info"), path.join("objects"), path])
            })
            .await?;
        // Handles that are open keep the files of packs that are gone.
        self.pool.forget(id);
        let guard = self.locked(slot).await?;
        self.writer.tell_size(&guard).await?;
        let percent = self.options.cruft_percent;
        Ok(self.pool.run_blocking(move |store| measure(store, id, percent)).await?)
    }
}

/// Whether a ref moved, between git's look at packs and at refs, to objects that came in a new pack: there is no bitmap for it, and
/// nothing else was changed.
fn has_lost_a_race(failure: &Failure) -> bool {
    matches!(failure, Failure::Git(GitError::Command { stderr, .. }) if stderr.contains("could not write multi-pack bitmap"))
}

/// Takes the repository for upkeep, removes what was left of it by a crash, and measures it; `None` when it is taken. Blocking.
fn look(store: &Store, id: RepositoryId, limit: u64, percent: u64) -> Result<Option<Look>, GitError> {
    let path = store.path(id);
    let hold = fs::File::options().create(true).truncate(false).write(true).read(true).open(path.join(HOLD));
    let hold = hold.map_err(GitError::io("taking a repository for upkeep"))?;
    match hold.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(GitError::io("taking a repository for upkeep")(error)),
    }
    remove_remains(&path);
    Ok(Some(Look { hold, measure: measure(store, id, percent)?, loose_refs: loose_refs(&path, limit) }))
}

/// Removes what a repack that was killed left behind. No other may begin before: to git the unfinished pack is a pack like any other,
/// and it removes loose objects that it finds in there, which would then be in no pack that stays.
pub(super) fn remove_remains(repository: &Path) {
    let objects = repository.join("objects");
    for lock in OWN_LOCKS {
        // Usually it is not there; what cannot be removed makes git fail, and says so.
        drop(fs::remove_file(objects.join(lock)));
    }
    for entry in fs::read_dir(objects.join("pack")).into_iter().flatten().flatten() {
        // Only a repack names its files so.
        if entry.file_name().to_string_lossy().starts_with(".tmp-") {
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn measure(store: &Store, id: RepositoryId, percent: u64) -> Result<Measure, GitError> {
    let mut measure = store.measure(id)?;
    measure.date_cruft(&store.path(id), percent);
    Ok(measure)
}

/// A full repack has old and new packs on disk at the same time.
fn check_room(store: &Store, bytes: u64) -> Result<(), GitError> {
    let disk = rustix::fs::statvfs(store.root()).map_err(|error| GitError::io("measuring the disk")(error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free > bytes.saturating_add(bytes / 4) {
        return Ok(());
    }
    Err(GitError::Internal(format!("{free} bytes are free: too little to pack {bytes} anew")))
}

/// Counts every object that is not known to be out of use as touched now: the time until it expires begins when upkeep first sees
/// that nothing refers to it, however old it is.
fn touch_packs(repository: &Path) -> Result<(), GitError> {
    let folder = repository.join("objects/pack");
    let entries = fs::read_dir(&folder).map_err(GitError::io("listing packs"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "pack") && !path.with_extension("mtimes").exists() {
            let touched = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            touched.map_err(GitError::io("touching a pack"))?;
        }
    }
    Ok(())
}

/// What expired stays in the trash, unless refs changed meanwhile: an update may have taken it up again.
pub(super) fn settle_trash(trash: &Path, repository: &Path, changed: bool) -> Result<(), GitError> {
    let list = |what: &'static str| fs::read_dir(trash).map_err(GitError::io(what));
    if changed {
        let mut files: Vec<_> = list("listing expired objects")?.flatten().collect();
        // A pack is seen by its index, which comes last.
        files.sort_by_key(|entry| entry.path().extension().is_some_and(|extension| extension == "idx"));
        for entry in files {
            let place = repository.join("objects/pack").join(entry.file_name());
            fs::rename(entry.path(), place).map_err(GitError::io("putting expired objects back"))?;
        }
    }
    if list("listing expired objects")?.next().is_none() {
        fs::remove_dir(trash).map_err(GitError::io("removing an empty folder"))?;
    }
    Ok(())
}
