//! Refs: the only code that lists, resolves and changes them. Not here: who may, and the journal.

mod read;
mod transact;

use std::{fs, io::Write as _, path::Path, sync::Arc};

use ferrite_proto::id::RepositoryId;
use git2::Oid;

pub use self::read::{HeadState, RefEntry, RefPage, head, is_empty, list, lookup};
use crate::{
    command::Git,
    error::GitError,
    layout::Store,
    name::{BranchName, RefName},
    pool::Pool,
    write::durable::sync,
};

/// One change of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which ref.
    pub name: RefName,
    /// Where it must be now; absent: it must not exist.
    pub old: Option<Oid>,
    /// Where it goes; absent: it is deleted.
    pub new: Option<Oid>,
}

/// A part of a list: pages count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub number: usize,
    /// At least 1.
    pub size: usize,
}

impl Page {
    /// The indices of the page in a list of `total`.
    #[must_use]
    pub fn range(self, total: usize) -> std::ops::Range<usize> {
        let start = self.number.max(1).saturating_sub(1).saturating_mul(self.size).min(total);
        start..start.saturating_add(self.size).min(total)
    }
}

/// The refs of all repositories of a store. Clones share everything.
#[derive(Clone)]
pub struct Refs {
    store: Arc<Store>,
    pool: Pool,
    git: Arc<Git>,
}

impl Refs {
    /// Refs of the repositories in `store`.
    #[must_use]
    pub fn new(store: Arc<Store>, pool: Pool, git: Arc<Git>) -> Self {
        Self { store, pool, git }
    }

    /// A page of the refs whose full name begins with `prefix`, by name, hidden ones left out.
    pub async fn list(&self, id: RepositoryId, prefix: &'static str, page: Page) -> Result<RefPage, GitError> {
        self.pool.run(id, move |repo| list(repo, prefix, page)).await
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

    /// Whether the repository has no branch.
    pub async fn is_empty(&self, id: RepositoryId) -> Result<bool, GitError> {
        self.pool.run(id, is_empty).await
    }

    /// Points HEAD to a branch, which need not exist; durable when it returns. The caller holds the repository's write lock.
    pub async fn set_head(&self, id: RepositoryId, branch: BranchName) -> Result<(), GitError> {
        self.pool.run(id, move |repo| write_head(repo.path(), &branch)).await
    }

    /// Changes all of the refs, or none; durable when it returns. The caller holds the repository's write lock.
    ///
    /// Errors: `RefConflict` (one is not at `old`, or locked), `RefNameClash`, `RefTarget`, `TimedOut`. After `TimedOut` and
    /// `Internal` kinds the refs must be read to know what happened.
    pub async fn transact(&self, id: RepositoryId, edits: &[Edit]) -> Result<(), GitError> {
        if edits.is_empty() {
            return Ok(());
        }
        if !self.store.exists(id) {
            return Err(GitError::RepositoryNotFound);
        }
        let path = self.store.path(id);
        transact::run(&self.git, &path, edits).await?;
        let edits = edits.to_vec();
        self.pool.run_blocking(move |_| transact::sync_names(&path, &edits)).await
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
    transact::remove_stale(&repository.join("packed-refs.lock"))
}

/// Writes a ref of a repository that nobody can see yet; the caller syncs it.
pub(crate) fn write_unpublished(repository: &Path, name: &RefName, target: Oid) -> Result<(), GitError> {
    let path = transact::loose(repository, name);
    let parent = path.parent().expect("a ref's file has a folder");
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, format!("{target}\n")));
    written.map_err(GitError::io(format!("writing `{name}`")))
}

#[cfg(test)]
mod tests;
