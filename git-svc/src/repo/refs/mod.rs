//! Refs: the only code that lists, resolves and changes them. Not here: who may, and the journal.

mod cache;
mod edit;
mod load;
mod loose;
mod read;
mod table;
mod transact;

use std::{fs, io::Write as _, path::Path, sync::Arc, time::Duration};

use ferrite_proto::id::RepositoryId;
use git2::Oid;

use self::cache::RefCache;
pub(crate) use self::load::load;
pub use self::{
    edit::{Page, RefEdit},
    read::{HeadState, head, is_empty, lookup},
    table::{RefEntry, RefPage, RefTable},
};
use super::pool::Pool;
use crate::{
    disk::{durable::sync, full::classify_disk_full, repositories::RepositoryStore},
    git::command::Git,
    types::{
        error::GitError,
        name::{BranchName, RefName},
    },
};

/// The refs of all repositories of a store. Clones share everything.
#[derive(Clone)]
pub struct Refs {
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Arc<Git>,
    cache: Arc<RefCache>,
    deadline: Duration,
}

/// Bytes that tables of refs may take, unless somebody says otherwise.
pub const DEFAULT_CACHE_BYTES: u64 = 64 << 20;

impl Refs {
    /// Refs of the repositories in `store`.
    #[must_use]
    pub fn new(store: Arc<RepositoryStore>, pool: Pool, git: Arc<Git>) -> Self {
        Self {
            store,
            pool,
            git,
            cache: Arc::new(RefCache::new(DEFAULT_CACHE_BYTES)),
            deadline: transact::DEFAULT_DEADLINE,
        }
    }

    /// The same, where one transaction may take as long as this.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The same, with tables that take `bytes` in all.
    #[must_use]
    pub fn with_cache_bytes(self, bytes: u64) -> Self {
        Self { cache: Arc::new(RefCache::new(bytes)), ..self }
    }

    /// All refs of a repository, hidden and broken ones left out: everything that was done before the call is in it.
    pub async fn table(&self, id: RepositoryId) -> Result<Arc<RefTable>, GitError> {
        let path = self.store.path(id);
        self.cache.table(id, &path, self.pool.run(id, load)).await
    }

    /// A page of the refs whose full name begins with `prefix`, by name, hidden and broken ones left out.
    pub async fn list(&self, id: RepositoryId, prefix: impl AsRef<[u8]>, page: Page) -> Result<RefPage, GitError> {
        Ok(self.table(id).await?.page(prefix.as_ref(), page))
    }

    /// Drops what is known about a repository's refs: it was deleted or moved, or something else may have changed them.
    pub fn forget(&self, id: RepositoryId) {
        self.cache.forget(id);
    }

    /// Where a ref is; `None` if it does not exist.
    pub async fn resolve(&self, id: RepositoryId, name: RefName) -> Result<Option<Oid>, GitError> {
        self.pool.run(id, move |repo| lookup(repo, &name)).await
    }

    /// Where each of several refs is, in their order.
    pub async fn resolve_all(&self, id: RepositoryId, names: Vec<RefName>) -> Result<Vec<Option<Oid>>, GitError> {
        self.pool.run(id, move |repo| names.iter().map(|name| lookup(repo, name)).collect()).await
    }

    /// The branch HEAD points to, and its tip if it exists.
    pub async fn head(&self, id: RepositoryId) -> Result<HeadState, GitError> {
        self.pool.run(id, head).await
    }

    /// The same, and what the repository takes on disk, in bytes.
    pub(crate) async fn head_and_size(&self, id: RepositoryId) -> Result<(HeadState, u64), GitError> {
        let store = Arc::clone(&self.store);
        self.pool.run(id, move |repo| Ok((head(repo)?, store.size(id)?))).await
    }

    /// Whether the repository has no branch.
    pub async fn is_empty(&self, id: RepositoryId) -> Result<bool, GitError> {
        if self.head(id).await?.tip.is_some() {
            return Ok(false);
        }
        Ok(self.table(id).await?.span(b"refs/heads/").is_empty())
    }

    /// Points HEAD to a branch, which need not exist; durable when it returns. The caller holds the repository's write lock.
    pub async fn set_head(&self, id: RepositoryId, branch: BranchName) -> Result<(), GitError> {
        self.pool.run(id, move |repo| write_head(repo.path(), &branch)).await
    }

    /// Changes all of the refs, or none; durable when it returns. The caller holds the repository's write lock.
    ///
    /// Errors: `RefConflict` (one is not at `old`, or locked), `RefNameClash`, `RefTarget`, `TimedOut`. After `TimedOut` and
    /// `Internal` kinds the refs must be read to know what happened.
    pub async fn transact(&self, id: RepositoryId, edits: &[RefEdit]) -> Result<(), GitError> {
        if edits.is_empty() {
            return Ok(());
        }
        if !self.store.exists(id) {
            return Err(GitError::RepositoryNotFound);
        }
        let path = self.store.path(id);
        let update = self.cache.begin_update(id);
        let is_synced = match self.change(id, &path, edits).await {
            Ok(is_synced) => is_synced,
            Err(error) => {
                if error.is_refused_transaction() {
                    update.rolled_back();
                }
                return self.pool.run_blocking(move |_| Err(classify_disk_full(error, &path))).await;
            }
        };
        let (edits, folder) = (edits.to_vec(), path.clone());
        let changes = if self.cache.is_cached_or_loading(id) {
            let settle = move |repo: &git2::Repository| {
                if !is_synced {
                    transact::sync_names(&folder, &edits)?;
                }
                Ok(load::changes(repo, &edits))
            };
            self.pool.run(id, settle).await?
        } else {
            if !is_synced {
                self.pool.run_blocking(move |_| transact::sync_names(&folder, &edits)).await?;
            }
            Ok(Vec::new())
        };
        match changes {
            Ok(changes) => update.committed(&path, changes),
            // The refs are changed all the same; they are read again.
            Err(error) => {
                tracing::warn!(repo.id = %id, %error, "refs cannot be kept in memory");
                self.cache.forget(id);
                update.committed(&path, Vec::new());
            }
        }
        Ok(())
    }

    /// Changes the refs in the cheapest way; returns whether their names are on disk already.
    async fn change(&self, id: RepositoryId, path: &Path, edits: &[RefEdit]) -> Result<bool, GitError> {
        if let [edit] = edits {
            let edit = edit.clone();
            if self.pool.run(id, move |repo| loose::advance(repo, &edit)).await?.is_some() {
                return Ok(true);
            }
        }
        transact::run(&self.git, path, edits, self.deadline).await.map(|()| false)
    }
}

/// Removes the locks of refs that a crash left behind. The caller holds the repository's write lock, and every process of the time
/// before has ended.
pub(crate) fn remove_locks(repository: &Path, names: &[RefName]) {
    for name in names {
        transact::remove(&transact::lock_path(repository, name));
    }
}

/// Writes HEAD beside itself and renames it into place.
fn write_head(repository: &Path, branch: &BranchName) -> Result<(), GitError> {
    let text = [b"ref: ", branch.to_ref().as_bytes(), b"\n"].concat();
    // Not `HEAD.lock`: one that a crash left behind would be in the way for ever.
    let beside = repository.join("HEAD.new");
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(GitError::io("writing HEAD"))?;
    fs::rename(&beside, repository.join("HEAD")).map_err(GitError::io("replacing HEAD"))?;
    sync(repository)
}

/// Removes the lock of packed refs if a killed process left it behind; whether it did. The caller holds the repository's write lock.
pub(crate) fn remove_stale_lock(repository: &Path) -> bool {
    transact::remove_stale(&repository.join("packed-refs.lock"), transact::DEFAULT_DEADLINE)
}

#[cfg(test)]
mod tests;
