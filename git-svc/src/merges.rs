//! What merges of pull requests share: turns, so that merges of one repository do not make each
//! other's base move, and the cached answers about open pull requests.

use std::{sync::Arc, time::Duration};

use ferrite_proto::{git::PullStats, id::RepositoryId};
use git_store::{
    repo::{
        merge::MergeCache,
        read::diff::{BlobPair, ChangedLines},
    },
    types::{error::GitError, weak_map::WeakMap},
};
use git2::Oid;
use moka::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Longest wait for the other merges of a repository.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// Entries of each cache but that of merges, which counts bytes. An entry has some 100 bytes.
const MAX_CACHED_PAIRS: u64 = 100_000;
/// All lines that the cache of compared files keeps, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// What a pair of files takes without its lines.
const ENTRY_BYTES: usize = 128;

/// Two commits of a repository. What follows from them alone stays true.
pub(crate) type Pair = (RepositoryId, Oid, Oid);

/// Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Merges {
    turns: Arc<WeakMap<RepositoryId, Mutex<()>>>,
    /// Whether a head can be merged into a base.
    pub(crate) checks: MergeCache,
    /// The merge base of a base and a head.
    pub(crate) bases: Cache<Pair, Option<Oid>>,
    /// The size of the changes from a merge base to a head.
    pub(crate) stats: Cache<Pair, PullStats>,
    /// The lines in which two files differ, for the comments on them.
    pub(crate) lines: Cache<(RepositoryId, BlobPair), Arc<[ChangedLines]>>,
}

impl Default for Merges {
    fn default() -> Self {
        let weigh = |_: &(RepositoryId, BlobPair), lines: &Arc<[ChangedLines]>| {
            u32::try_from(ENTRY_BYTES + size_of_val::<[ChangedLines]>(lines)).unwrap_or(u32::MAX)
        };
        let lines = Cache::builder().max_capacity(MAX_LINE_BYTES).weigher(weigh).support_invalidation_closures();
        Self {
            turns: Arc::default(),
            checks: MergeCache::default(),
            bases: cache(),
            stats: cache(),
            lines: lines.build(),
        }
    }
}

fn cache<V: Clone + Send + Sync + 'static>() -> Cache<Pair, V> {
    Cache::builder().max_capacity(MAX_CACHED_PAIRS).support_invalidation_closures().build()
}

impl Merges {
    /// Waits until no other merge of the repository runs. Pushes do not wait for it.
    pub(crate) async fn turn(&self, id: RepositoryId) -> Result<OwnedMutexGuard<()>, GitError> {
        let lock = self.turns.get_or_insert_with(id, Mutex::default);
        tokio::time::timeout(TURN_TIMEOUT, lock.lock_owned()).await.map_err(|_| GitError::Overloaded)
    }

    /// Drops the cached answers about a deleted repository.
    pub(crate) fn forget(&self, id: RepositoryId) {
        self.checks.forget(id);
        let dropped = self.bases.invalidate_entries_if(move |(of, ..), _| *of == id);
        let dropped = dropped.and_then(|_| self.stats.invalidate_entries_if(move |(of, ..), _| *of == id));
        if let Err(error) = dropped.and_then(|_| self.lines.invalidate_entries_if(move |(of, _), _| *of == id)) {
            tracing::warn!(repo.id = %id, %error, "cannot drop the cached merges of a repository");
        }
    }
}
