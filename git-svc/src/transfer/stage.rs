//! Copies a commit with its history into another repository of this store, for pull requests.
//!
//! Only what the commit reaches is copied, without what the branches and pull requests of the target
//! reach: one pack that is complete with the objects of these. Source and target share no files.
//!
//! Until a ref points to the commit, its objects are unreferenced. Maintenance keeps those for two
//! weeks after it found them (`FERRITE_GIT_UPKEEP_EXPIRE_SECONDS`), and puts them back if a ref
//! changed while it removed them.

use std::{path::Path, sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{
        full::require_free_space,
        repositories::{PackSizes, RepositoryStore},
    },
    git::command::Git,
    repo::{
        pool::Pool,
        read::{
            Deadline,
            diff::{MAX_AHEAD_STEPS, ahead, merge_base_across},
        },
        refs::{Page, RefTable, Refs},
    },
    types::{
        error::GitError,
        limits::{MAX_FILE_BYTES, PushLimits},
    },
};
use git2::{ErrorCode, ObjectType, Oid, Repository};
use tokio::time::{MissedTickBehavior, interval};

use super::push::{PackFlaw, UnreadPacks, find_flaw};
use crate::admission::limiter::{ClientKey, Limiter};

/// Time limit of a copy, and of the search for a merge base.
const STAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of measuring an unfinished pack.
const SIZE_INTERVAL: Duration = Duration::from_millis(200);
/// Refs of the target, of each kind, whose objects are not copied again. More would only make packs
/// smaller.
const MAX_KNOWN_TIPS: usize = 10_000;
const KNOWN_REFS: [&[u8]; 2] = [b"refs/heads/", b"refs/pull/"];

/// Copies commits. Clones share everything.
#[derive(Clone)]
pub(crate) struct StageService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) refs: Refs,
    pub(crate) limiter: Arc<Limiter>,
    /// As those of pushes.
    pub(crate) limits: PushLimits,
    /// Stops running copies when the service stops.
    pub(crate) life: Lifecycle,
}

/// A commit to copy. The caller got its id from a branch of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedCommit {
    pub(crate) source: RepositoryId,
    pub(crate) target: RepositoryId,
    pub(crate) commit: Oid,
    /// Bytes that the owner of the target may still store; `None` for no limit.
    pub(crate) left_bytes: Option<u64>,
}

impl StageService {
    /// Copies a commit. On success it is on disk with all it reaches; after an error nothing of it
    /// remains. Does nothing if both repositories are the same one. Fails with `Overloaded` also when
    /// the process stops.
    ///
    /// Must run to completion, as [`RefUpdater::apply`](crate::ref_updates::RefUpdater::apply).
    pub(crate) async fn copy(&self, staged: StagedCommit) -> Result<(), GitError> {
        let StagedCommit { source, target, commit, .. } = staged;
        if source == target {
            return Ok(());
        }
        let _permit = self.limiter.acquire(source, &ClientKey::Repository(source)).await?;
        let begin = move |store: &RepositoryStore| {
            store.check_exists(source)?;
            store.check_exists(target)?;
            // The pack is limited while it is written. It must not fill the disk for other writers.
            require_free_space(store.root(), MAX_FILE_BYTES)?;
            store.begin_quarantine(target)
        };
        let quarantine = self.pool.run_blocking(begin).await?;
        let outcome = self.fill(staged, &quarantine).await;
        let end = move |store: &RepositoryStore| match outcome {
            Ok(()) => store.remove_incoming(&quarantine),
            Err(error) => Err(store.discard_built(&quarantine, error)),
        };
        self.pool.run_blocking(end).await?;
        if self.has_commit(target, commit).await? {
            return Ok(());
        }
        Err(GitError::Internal(format!("{commit} is missing after it was copied")))
    }

    /// Writes the pack to `quarantine`, checks it as that of a push, and moves it into the target.
    async fn fill(&self, staged: StagedCommit, quarantine: &Path) -> Result<(), GitError> {
        let StagedCommit { source, target, commit, left_bytes } = staged;
        let known = known_tips(&*self.refs.table(target).await?);
        let input: String =
            std::iter::once(format!("{commit}\n")).chain(known.iter().map(|id| format!("^{id}\n"))).collect();
        let (from, to) = (self.store.path(source), self.store.path(target));
        let child = self.git.copy_new_objects(&from, &to, quarantine)?;
        let mut outgrown = None;
        let stop = async {
            tokio::select! {
                () = self.life.stopping() => {}
                error = self.outgrows(quarantine, left_bytes) => outgrown = Some(error),
            }
        };
        let output = child.output_unless(input.as_bytes(), stop, STAGE_TIMEOUT).await?;
        if output.is_none() {
            return Err(outgrown.unwrap_or(GitError::Overloaded));
        }
        let (folder, limits) = (quarantine.to_owned(), self.limits);
        let adopt = move |store: &RepositoryStore| {
            check_sizes(store.pack_sizes(&folder)?, &limits, left_bytes)?;
            let unread = UnreadPacks { limits: &limits.pack, repository: &store.path(target) };
            match find_flaw(&folder, Some(unread)).map_err(GitError::io("reading a pack"))? {
                None => store.adopt_packs(target, &folder),
                Some(flaw) => Err(too_large(&flaw, &limits)),
            }
        };
        self.pool.run_blocking(adopt).await
    }

    /// Returns once the unfinished pack exceeds a limit.
    async fn outgrows(&self, quarantine: &Path, left_bytes: Option<u64>) -> GitError {
        let mut ticks = interval(SIZE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (folder, limits) = (quarantine.to_owned(), self.limits);
            let check = move |store: &RepositoryStore| check_sizes(store.pack_sizes(&folder)?, &limits, left_bytes);
            match self.pool.run_blocking(check).await {
                // If the pool is busy, the next check tries again.
                Ok(()) | Err(GitError::Overloaded) => {}
                Err(error) => return error,
            }
        }
    }

    /// Returns git's first merge base of a commit of the target and one of the source; `None` without
    /// common history. Copies nothing.
    pub(crate) async fn merge_base(
        &self,
        (target, base): (RepositoryId, Oid),
        (source, head): (RepositoryId, Oid),
    ) -> Result<Option<Oid>, GitError> {
        let (deadline, _waiting) = Deadline::start(STAGE_TIMEOUT);
        let walk = move |store: &RepositoryStore| {
            store.check_exists(target)?;
            store.check_exists(source)?;
            let repo = Repository::open_bare(store.path(target))?;
            if source != target {
                repo.odb()?.add_disk_alternate(&store.path(source).join("objects").to_string_lossy())?;
            }
            ahead(&repo, base, head, Page { number: 1, size: 1 }, MAX_AHEAD_STEPS, &deadline)
        };
        if let Some(walked) = self.pool.run_blocking(walk).await? {
            return Ok(walked.merge_base);
        }
        let _permit = self.limiter.acquire(source, &ClientKey::Repository(source)).await?;
        merge_base_across(&self.git, &self.store.path(target), &self.store.path(source), (base, head)).await
    }

    /// Returns whether a repository has the commit, referenced or not.
    pub(crate) async fn has_commit(&self, id: RepositoryId, commit: Oid) -> Result<bool, GitError> {
        let find = move |repo: &Repository| match repo.odb()?.read_header(commit) {
            Ok((_, kind)) => Ok(kind == ObjectType::Commit),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        };
        self.pool.run(id, find).await
    }
}

/// Returns commits of the target whose objects need not be copied.
fn known_tips(table: &RefTable) -> Vec<Oid> {
    let tips = KNOWN_REFS.iter().flat_map(|prefix| table.rows(table.span(prefix)).take(MAX_KNOWN_TIPS));
    let mut tips: Vec<_> = tips.filter(|entry| entry.kind == ObjectType::Commit).map(|entry| entry.target).collect();
    tips.sort_unstable();
    tips.dedup();
    tips
}

fn check_sizes(sizes: PackSizes, limits: &PushLimits, left_bytes: Option<u64>) -> Result<(), GitError> {
    if let Some(left) = left_bytes.filter(|left| sizes.bytes > *left) {
        metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
        return Err(GitError::NoRoomLeft { left });
    }
    if sizes.bytes > limits.bytes {
        return Err(GitError::TooLarge { what: "the size of the new objects", limit: limits.bytes });
    }
    if sizes.objects > limits.objects {
        return Err(GitError::TooLarge { what: "the number of new objects", limit: limits.objects });
    }
    Ok(())
}

/// Returns the error for objects that a push could not bring either.
fn too_large(flaw: &PackFlaw, limits: &PushLimits) -> GitError {
    match flaw {
        PackFlaw::TooLarge { limit, .. } => GitError::TooLarge { what: "a new commit, tag or folder", limit: *limit },
        PackFlaw::DeepChains | PackFlaw::Sizes(_) => {
            GitError::TooLarge { what: "the size of a new object", limit: limits.pack.object_bytes }
        }
    }
}

#[cfg(test)]
mod tests;
