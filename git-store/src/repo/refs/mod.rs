//! Lists, resolves and changes refs. No other code does.

mod cache;
mod edit;
mod load;
mod loose;
mod read;
mod table;
mod transact;

use std::{fs, io::Write as _, path::Path, sync::Arc};

use ferrite_proto::id::RepositoryId;
use git2::{Oid, Repository};

use self::{cache::RefCache, table::TableChange};
pub use self::{
    edit::clashes_with_set,
    load::{describe, load},
    loose::{PreparedValue, may_point_to},
};
pub use self::{
    edit::{Page, RefEdit},
    read::{HeadState, head, is_empty, lookup},
    table::{RefEntry, RefPage, RefTable},
};
use super::pool::Pool;
use crate::{
    disk::{durable::sync, full::classify_disk_full, repositories::RepositoryStore, usage::DiskUsage},
    git::command::Git,
    types::{
        error::GitError,
        name::{BranchName, RefName},
    },
};

/// The refs of all repositories of a store. Clones share the cache.
#[derive(Clone)]
pub struct Refs {
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Arc<Git>,
    cache: Arc<RefCache>,
}

/// First line of `packed-refs`: tags are peeled and names are sorted.
const PACKED_HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";
/// Default size of the cache of ref tables, in bytes.
pub const DEFAULT_CACHE_BYTES: u64 = 64 << 20;

impl Refs {
    /// The refs of the repositories in `store`, with default limits.
    #[must_use]
    pub fn new(store: Arc<RepositoryStore>, pool: Pool, git: Arc<Git>) -> Self {
        Self { store, pool, git, cache: Arc::new(RefCache::new(DEFAULT_CACHE_BYTES)) }
    }

    /// Sets the size of the cache of ref tables, in bytes.
    #[must_use]
    pub fn with_cache_bytes(self, bytes: u64) -> Self {
        Self { cache: Arc::new(RefCache::new(bytes)), ..self }
    }

    /// Returns all refs except hidden and broken ones, including every change made before the call.
    pub async fn table(&self, id: RepositoryId) -> Result<Arc<RefTable>, GitError> {
        let path = self.store.path(id);
        self.cache.table(id, &path, self.pool.run(id, load)).await
    }

    /// Returns a page of the visible, unbroken refs that start with `prefix`, sorted by name, without
    /// those of pull requests.
    pub async fn list(&self, id: RepositoryId, prefix: impl AsRef<[u8]>, page: Page) -> Result<RefPage, GitError> {
        Ok(self.table(id).await?.page(prefix.as_ref(), page))
    }

    /// Drops the cached table of a repository that was deleted or moved, or whose refs may have
    /// changed otherwise.
    pub fn forget(&self, id: RepositoryId) {
        self.cache.forget(id);
    }

    /// Returns the object id of a ref, if it exists.
    pub async fn resolve(&self, id: RepositoryId, name: RefName) -> Result<Option<Oid>, GitError> {
        self.pool.run(id, move |repo| lookup(repo, &name)).await
    }

    /// Returns the object ids of several refs, in order; `None` for missing ones.
    pub async fn resolve_all(&self, id: RepositoryId, names: Vec<RefName>) -> Result<Vec<Option<Oid>>, GitError> {
        self.pool.run(id, move |repo| names.iter().map(|name| lookup(repo, name)).collect()).await
    }

    /// Returns the branch of HEAD, and its tip if the branch exists.
    pub async fn head(&self, id: RepositoryId) -> Result<HeadState, GitError> {
        self.pool.run(id, head).await
    }

    /// Returns the state of HEAD and the disk usage.
    pub async fn head_and_usage(&self, id: RepositoryId) -> Result<(HeadState, DiskUsage), GitError> {
        let store = Arc::clone(&self.store);
        self.pool.run(id, move |repo| Ok((head(repo)?, store.usage(id)?))).await
    }

    /// Returns the state of HEAD and the size of the objects in bytes.
    pub async fn head_and_size(&self, id: RepositoryId) -> Result<(HeadState, u64), GitError> {
        self.head_and_usage(id).await.map(|(head, usage)| (head, usage.bytes))
    }

    /// Returns whether the repository has no branch.
    pub async fn is_empty(&self, id: RepositoryId) -> Result<bool, GitError> {
        if self.head(id).await?.tip.is_some() {
            return Ok(false);
        }
        Ok(self.table(id).await?.span(b"refs/heads/").is_empty())
    }

    /// Points HEAD durably to a branch, which need not exist. The caller holds the write lock.
    pub async fn set_head(&self, id: RepositoryId, branch: BranchName) -> Result<(), GitError> {
        self.pool.run(id, move |repo| write_head(repo.path(), &branch)).await
    }

    /// Changes all refs or none, durably. The caller holds the repository's write lock.
    ///
    /// # Errors
    /// `RefConflict`, `RefNameClash`, `RefTarget` and `RepositoryNotFound` mean that nothing
    /// changed. After `TimedOut` and errors of kind `Internal`, read the refs to learn the result.
    pub async fn transact(&self, id: RepositoryId, edits: &[RefEdit]) -> Result<(), GitError> {
        let prepared = self.prepare(id, edits).await?;
        self.commit(id, edits, prepared).await.map(drop)
    }

    /// Prepares a transaction that is not decided yet: if it moves a single ref, writes and syncs
    /// the new value. Changes and locks nothing. The caller holds the repository's write lock.
    pub async fn prepare(&self, id: RepositoryId, edits: &[RefEdit]) -> Result<Option<PreparedValue>, GitError> {
        self.store.check_exists(id)?;
        let Some(target) = loose::target(edits) else { return Ok(None) };
        let path = self.store.incoming_file(id);
        self.store.sync_threads().run(move || PreparedValue::write(path, target).map(Some)).await
    }

    /// Commits a prepared transaction: changes all refs or none, durably; errors as in
    /// [`Refs::transact`]. Returns the new state of HEAD and disk usage, if they can be read.
    pub async fn commit(
        &self,
        id: RepositoryId,
        edits: &[RefEdit],
        prepared: Option<PreparedValue>,
    ) -> Result<Option<(HeadState, DiskUsage)>, GitError> {
        if edits.is_empty() {
            return Ok(None);
        }
        let path = self.store.path(id);
        let update = self.cache.begin_update(id);
        let after = match self.change(id, &path, edits, prepared).await {
            Ok(after) => after,
            Err(error) => {
                if error.is_refused_transaction() {
                    update.rolled_back();
                }
                return self.pool.run_blocking(move |_| Err(classify_disk_full(error, &path))).await;
            }
        };
        match after.changes {
            Ok(changes) => update.committed(&path, changes),
            // The refs have changed, but their new entries cannot be read. Load the table again.
            Err(error) => {
                tracing::warn!(repo.id = %id, %error, "cannot update the cached refs; they are loaded again");
                self.cache.forget(id);
                update.committed(&path, Vec::new());
            }
        }
        Ok(after.state)
    }

    /// Changes the refs durably, without a process if possible.
    async fn change(
        &self,
        id: RepositoryId,
        path: &Path,
        edits: &[RefEdit],
        prepared: Option<PreparedValue>,
    ) -> Result<AfterTransaction, GitError> {
        if let ([edit], Some(value)) = (edits, prepared) {
            let (edit, read) = (edit.clone(), self.read_after(id, edits));
            let job = move |repo: &Repository| Ok(loose::advance(repo, &edit, &value)?.then(|| read(repo)));
            if let Some(after) = self.pool.run(id, job).await? {
                return Ok(after);
            }
        }
        transact::run(&self.git, path, edits).await?;
        let (path, own, read) = (path.to_owned(), edits.to_vec(), self.read_after(id, edits));
        let job = move |repo: &Repository| transact::sync_names(&path, &own).map(|()| read(repo));
        self.pool.run(id, job).await
    }

    fn read_after(&self, id: RepositoryId, edits: &[RefEdit]) -> impl Fn(&Repository) -> AfterTransaction + use<> {
        let (store, cache, edits) = (Arc::clone(&self.store), Arc::clone(&self.cache), edits.to_vec());
        move |repo| {
            let is_needed = cache.is_cached_or_loading(id);
            let changes = if is_needed { load::changes(repo, &edits) } else { Ok(Vec::new()) };
            let state = head(repo).and_then(|head| Ok((head, store.usage(id)?)));
            AfterTransaction { changes, state: state.ok() }
        }
    }
}

/// A repository after a ref transaction. Errors here do not fail the transaction.
struct AfterTransaction {
    changes: Result<Vec<TableChange>, GitError>,
    state: Option<(HeadState, DiskUsage)>,
}

/// Removes ref locks that a crash left behind. The caller holds the repository's write lock, and
/// all git processes from before the crash have ended.
pub fn remove_locks(repository: &Path, names: &[RefName]) {
    for name in names {
        transact::remove(&transact::lock_path(repository, name));
    }
}

/// Writes `HEAD.new`, renames it to `HEAD` and syncs the folder.
fn write_head(repository: &Path, branch: &BranchName) -> Result<(), GitError> {
    let text = [b"ref: ", branch.to_ref().as_bytes(), b"\n"].concat();
    // Not `HEAD.lock`, which would block later writes after a crash.
    let beside = repository.join("HEAD.new");
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(GitError::io("writing HEAD"))?;
    fs::rename(&beside, repository.join("HEAD")).map_err(GitError::io("replacing HEAD"))?;
    sync(repository)
}

/// Writes sorted refs to `packed-refs` of an unpublished repository. The caller syncs.
pub fn write_packed(repository: &Path, sorted: &[RefEntry]) -> Result<(), GitError> {
    let mut text = PACKED_HEADER.to_vec();
    for entry in sorted {
        text.extend_from_slice(entry.target.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(entry.name.as_bytes());
        text.push(b'\n');
        if let Some(peeled) = entry.peeled {
            text.extend_from_slice(format!("^{peeled}\n").as_bytes());
        }
    }
    fs::write(repository.join("packed-refs"), text).map_err(GitError::io("writing `packed-refs`"))
}

/// Removes the lock and new content of `packed-refs` that a killed process left behind. Returns
/// whether there were any. The caller holds the repository's write lock.
pub fn remove_stale_lock(repository: &Path) -> bool {
    transact::remove_stale_packed(repository, transact::DEADLINE)
}

#[cfg(test)]
mod tests;
