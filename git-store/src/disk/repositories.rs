//! The folder of a store: its lock, and creation, deletion and clean-up of repositories.

mod incoming;
mod objects;
mod quarantine;

pub use self::quarantine::PackSizes;

use std::{
    ffi::OsStr,
    fs, io,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ferrite_proto::id::RepositoryId;
use moka::sync::Cache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{
    delta_mark,
    durable::{SyncThreads, sync, sync_all, sync_if_present, sync_tree},
    full::classify_disk_full,
    ignore_missing,
    usage::{DiskUsage, DiskUsageCache},
};
use crate::types::{
    error::GitError,
    name::{BranchName, RefName},
};

const TRASH_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How far file times lag behind the system clock: the kernel uses the time of its last tick.
pub const FILE_CLOCK_LAG: Duration = Duration::from_millis(20);

/// Name prefix of quarantines, which git creates in the object folder.
pub const QUARANTINE_PREFIX: &str = "tmp_objdir-incoming-";

/// The new content of `packed-refs`. git does not replace a leftover of a killed process.
pub const PACKED_REFS_NEW: &str = "packed-refs.new";

/// The `config` of a new repository. git processes get all other settings as arguments.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// Folders created at start; the first is the store itself.
const FOLDERS: [&str; 6] = ["", "repos", "incoming", "trash", "cache", "hooks"];

/// Repositories remembered as having synced folders. All others are synced again by the next write.
const MAX_SYNCED_REPOSITORIES: u64 = 10_000;

const PRIVATE_MODE: u32 = 0o700;

/// The `info/attributes` of a repository when git makes archives of it.
const ATTRIBUTES: &str = "* -export-subst\n";

/// A folder of repositories, locked by one process.
#[derive(Debug)]
pub struct RepositoryStore {
    root: PathBuf,
    name: String,
    usages: DiskUsageCache,
    sync_threads: SyncThreads,
    /// Repositories whose loose object folders all have durable names.
    synced_folders: Cache<RepositoryId, ()>,
    /// Held while a repository is being marked.
    marking: Mutex<()>,
    /// Closing the locked file releases the lock.
    _lock: fs::File,
}

/// The result of [`RepositoryStore::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Whether the repository already existed; then nothing was changed.
    pub existed: bool,
    /// The first commit, if this call created one.
    pub first_commit: Option<git2::Oid>,
}

impl RepositoryStore {
    /// Opens the store `name` at `root`, creating the folder if needed, and locks it. Waits up to
    /// `timeout` for the lock: the previous process may still be shutting down.
    ///
    /// # Errors
    /// `StoreHeld` if the lock is not free in time, `StoreIdentity` if the folder belongs to
    /// another store.
    pub async fn open(root: &Path, name: &str, timeout: Duration) -> Result<Self, GitError> {
        for folder in FOLDERS {
            make_private(&root.join(folder))?;
        }
        let root = root.canonicalize().map_err(GitError::io(format!("opening `{}`", root.display())))?;
        let lock = acquire_lock(&root, timeout).await?;
        check_identity(&root, name)?;
        sync(&root)?;
        let (usages, sync_threads) = (DiskUsageCache::default(), SyncThreads::default());
        let synced_folders = Cache::new(MAX_SYNCED_REPOSITORIES);
        let marking = Mutex::default();
        Ok(Self { root, name: name.to_owned(), usages, sync_threads, synced_folders, marking, _lock: lock })
    }

    /// The name of the store.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store's absolute path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The cache folder. It may be deleted while the service is stopped.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The path of a repository, whether or not it exists.
    #[must_use]
    pub fn path(&self, id: RepositoryId) -> PathBuf {
        let hash = hex::encode(Sha256::digest(id.to_string().as_bytes()));
        self.root.join("repos").join(&hash[..2]).join(&hash[2..4]).join(format!("{id}.git"))
    }

    /// Returns whether the repository exists.
    #[must_use]
    pub fn exists(&self, id: RepositoryId) -> bool {
        self.path(id).join("HEAD").is_file()
    }

    /// Fails with `RepositoryNotFound` if the repository does not exist.
    pub fn check_exists(&self, id: RepositoryId) -> Result<(), GitError> {
        if self.exists(id) { Ok(()) } else { Err(GitError::RepositoryNotFound) }
    }

    /// Creates a bare repository whose HEAD points to `branch`, and publishes it once all files are
    /// synced. An existing one is not changed. Blocking.
    ///
    /// `fill` may write objects and return the first commit of `branch`. On an error, the partly
    /// built repository is removed.
    pub fn create<F>(&self, id: RepositoryId, branch: &BranchName, fill: F) -> Result<Created, GitError>
    where
        F: FnOnce(&git2::Repository) -> Result<Option<git2::Oid>, GitError>,
    {
        let existing = Created { existed: true, first_commit: None };
        if self.exists(id) {
            return Ok(existing);
        }
        let incoming = self.root.join("incoming").join(format!("{id}-{}", Uuid::new_v4()));
        let built =
            build(&incoming, branch, fill).and_then(|commit| self.publish(id, &incoming).map(|new| (commit, new)));
        let built = built.map_err(|error| classify_disk_full(error, &self.root.join("incoming")));
        if !matches!(built, Ok((_, true))) {
            remove(&incoming)?;
        }
        match built? {
            (first_commit, true) => Ok(Created { existed: false, first_commit }),
            (_, false) => Ok(existing),
        }
    }

    /// Moves the built repository into place. Returns false if another call was first.
    fn publish(&self, id: RepositoryId, incoming: &Path) -> Result<bool, GitError> {
        let path = self.path(id);
        let inner = path.parent().expect("a repository's path has two levels above it");
        let outer = inner.parent().expect("a repository's path has two levels above it");
        fs::create_dir_all(inner).map_err(GitError::io("creating the repository's parent"))?;
        match fs::rename(incoming, &path) {
            Ok(()) => {}
            Err(_) if self.exists(id) => return Ok(false),
            Err(error) => return Err(GitError::io("publishing the repository")(error)),
        }
        sync_all(&[inner.to_owned(), outer.to_owned(), self.root.join("repos"), self.root.join("incoming")])?;
        Ok(true)
    }

    /// Moves the repository to `trash/`, if it exists. The caller clears the caches. Blocking.
    pub fn delete(&self, id: RepositoryId) -> Result<(), GitError> {
        self.usages.forget(id);
        self.synced_folders.invalidate(&id);
        let path = self.path(id);
        let trash = self.root.join("trash");
        // `empty_trash` goes by this time, or else by the last change.
        if let Ok(folder) = fs::File::open(&path) {
            folder.set_modified(SystemTime::now()).map_err(GitError::io("marking the repository deleted"))?;
        }
        match fs::rename(&path, trash.join(format!("{id}-{}", Uuid::new_v4()))) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(GitError::io("deleting the repository")(error)),
        }
        sync_if_present(path.parent().expect("a repository's path has levels above it"))?;
        sync(&trash)
    }

    /// Removes unfinished repositories, and those deleted more than a week before `now`. Called at
    /// start. Blocking.
    pub fn sweep(&self, now: SystemTime) -> Result<(), GitError> {
        for entry in list_dir(&self.root.join("incoming"))? {
            incoming::remove_left_behind(&entry.path())?;
        }
        self.empty_trash(now)
    }

    /// Removes what was moved to `trash/` more than a week before `now`. Blocking.
    pub fn empty_trash(&self, now: SystemTime) -> Result<(), GitError> {
        for entry in list_dir(&self.root.join("trash"))? {
            let changed = entry.metadata().and_then(|data| data.modified()).map_err(GitError::io("reading `trash`"))?;
            if now.duration_since(changed).is_ok_and(|age| age > TRASH_RETENTION) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes what killed git processes left behind: quarantines, temporary and lock files last
    /// modified more than `age` ago, which must exceed the lifetime of any git process. Blocking.
    pub fn remove_abandoned_files(&self, id: RepositoryId, age: Duration) {
        remove_abandoned_files_in(&self.path(id), SystemTime::now(), age);
    }

    /// Creates a folder in `trash/` for expired unreachable objects. Blocking.
    pub fn make_trash(&self, id: RepositoryId) -> Result<PathBuf, GitError> {
        let folder = self.root.join("trash").join(format!("{id}-expired-{}", Uuid::new_v4()));
        fs::create_dir(&folder).map_err(GitError::io("creating a folder in `trash`"))?;
        Ok(folder)
    }

    /// Removes quarantines last modified before `before`, which git leaves behind when killed. No
    /// running push may have started before that time. Blocking.
    pub fn remove_quarantines(&self, id: RepositoryId, before: SystemTime) -> Result<(), GitError> {
        for entry in list_dir(&self.path(id).join("objects"))? {
            let is_quarantine = entry.file_name().to_string_lossy().starts_with(QUARANTINE_PREFIX);
            // File times lag behind the system clock.
            let changed = entry.metadata().and_then(|data| data.modified()).map(|changed| changed + FILE_CLOCK_LAG);
            if is_quarantine && changed.is_ok_and(|changed| changed < before) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the size of the repository's objects in bytes. Blocking.
    pub fn size(&self, id: RepositoryId) -> Result<u64, GitError> {
        self.usage(id).map(|usage| usage.bytes)
    }

    /// Returns the disk usage: measured within the last minute, plus writes since. Blocking.
    pub fn usage(&self, id: RepositoryId) -> Result<DiskUsage, GitError> {
        if self.exists(id) { Ok(self.usages.get(id, &self.path(id))) } else { Err(GitError::RepositoryNotFound) }
    }

    /// Measures the repository's disk usage now. Blocking.
    pub fn measure(&self, id: RepositoryId) -> Result<DiskUsage, GitError> {
        self.usages.forget(id);
        // Maintenance may also have changed folders.
        self.synced_folders.invalidate(&id);
        self.usage(id)
    }

    /// Writes attributes that override those in the repository's trees, so that git expands no text
    /// in archives: a small file could become one of any size. Blocking.
    pub fn write_attributes(&self, id: RepositoryId) -> Result<(), GitError> {
        let folder = self.path(id).join("info");
        let file = folder.join("attributes");
        if fs::read(&file).is_ok_and(|found| found == ATTRIBUTES.as_bytes()) {
            return Ok(());
        }
        let beside = folder.join(format!("attributes-{}", Uuid::new_v4()));
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&beside, ATTRIBUTES))
            .and_then(|()| fs::rename(&beside, &file));
        written.map_err(GitError::io("writing the repository's attributes"))
    }

    /// Returns a new path for a file to rename into the repository. Start-up removes leftovers.
    pub fn incoming_file(&self, id: RepositoryId) -> PathBuf {
        self.root.join("incoming").join(format!("{id}-file-{}", Uuid::new_v4()))
    }
}

/// Creates a folder and its parents, or restricts it, for this user only. Blocking.
fn make_private(folder: &Path) -> Result<(), GitError> {
    let made = fs::DirBuilder::new().recursive(true).mode(PRIVATE_MODE).create(folder);
    made.map_err(GitError::io(format!("creating `{}`", folder.display())))?;
    let found = fs::metadata(folder).map_err(GitError::io(format!("reading `{}`", folder.display())))?;
    if found.permissions().mode() & 0o077 != 0
        && let Err(error) = fs::set_permissions(folder, fs::Permissions::from_mode(PRIVATE_MODE))
    {
        // A volume may belong to another user who grants access through a group.
        tracing::warn!(folder = %folder.display(), %error, "cannot restrict a folder of the store to this user");
    }
    Ok(())
}

/// Creates an empty folder, replacing one that an earlier process left. Blocking.
pub fn recreate_dir(folder: &Path) -> Result<(), GitError> {
    let removed = ignore_missing(fs::remove_dir_all(folder));
    removed.map_err(GitError::io(format!("removing `{}`", folder.display())))?;
    fs::create_dir_all(folder).map_err(GitError::io(format!("creating `{}`", folder.display())))
}

/// Removes abandoned files of one repository. Failures are retried at the next call.
fn remove_abandoned_files_in(repository: &Path, now: SystemTime, age: Duration) {
    let objects = repository.join("objects");
    // A branch may be called `tmp_x`, so only `objects` is searched for temporary names. No ref
    // name ends in `.lock`.
    let is_left_over = |folder: &Path, name: &str| {
        // `receive-pack` holds a `.keep` file until its refs are updated.
        let is_temporary = name.starts_with("tmp_") || name.starts_with(".tmp-") || name.ends_with(".keep");
        let is_packed_refs = folder == repository && name == PACKED_REFS_NEW;
        let is_lock = name.ends_with(".lock") || is_packed_refs;
        (folder.starts_with(&objects) && (is_temporary || lacks_index(folder, name))) || is_lock
    };
    let mut folders = vec![repository.to_owned(), repository.join("refs"), objects.clone()];
    while let Some(folder) = folders.pop() {
        for entry in list_dir(&folder).unwrap_or_default() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(data) = entry.metadata() else { continue };
            if is_left_over(&folder, &name) {
                let untouched = data.modified().ok().and_then(|changed| now.duration_since(changed).ok());
                if untouched.is_some_and(|time| time > age) {
                    drop(remove(&entry.path()));
                }
            } else if data.is_dir() && folder != repository {
                folders.push(entry.path());
            }
        }
    }
}

/// Returns whether `name` belongs to a pack without an index, which git ignores: the index is
/// written last and removed first.
fn lacks_index(folder: &Path, name: &str) -> bool {
    let stem = name.strip_prefix("pack-").and_then(|name| name.rsplit_once('.'));
    stem.is_some_and(|(stem, kind)| kind != "idx" && !folder.join(format!("pack-{stem}.idx")).exists())
}

/// Locks `<root>/lock`, polling until `timeout`.
async fn acquire_lock(root: &Path, timeout: Duration) -> Result<fs::File, GitError> {
    let path = root.join("lock");
    let file = fs::File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(GitError::io(format!("opening `{}`", path.display())))?;
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(fs::TryLockError::WouldBlock) => return Err(GitError::StoreHeld(root.to_owned())),
            Err(fs::TryLockError::Error(error)) => {
                return Err(GitError::io(format!("locking `{}`", path.display()))(error));
            }
        }
    }
}

/// Compares `store.id` with `name`, or writes it for a new store.
fn check_identity(root: &Path, name: &str) -> Result<(), GitError> {
    let path = root.join("store.id");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim_end() == name => Ok(()),
        // A crash after creation and before the write: the store was never in use.
        Ok(found) if found.is_empty() => write_file(&path, name),
        Ok(found) => Err(GitError::StoreIdentity { expected: name.to_owned(), found: found.trim_end().to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write_file(&path, name),
        Err(error) => Err(GitError::io(format!("reading `{}`", path.display()))(error)),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), GitError> {
    let written = fs::File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(GitError::io(format!("writing `{}`", path.display())))
}

fn build<F>(path: &Path, branch: &BranchName, fill: F) -> Result<Option<git2::Oid>, GitError>
where
    F: FnOnce(&git2::Repository) -> Result<Option<git2::Oid>, GitError>,
{
    lay_out(path, branch)?;
    let commit = fill(&git2::Repository::open_bare(path)?)?;
    if let Some(commit) = commit {
        write_unpublished(path, &branch.to_ref(), commit)?;
    }
    sync_tree(path)?;
    Ok(commit)
}

/// Writes an empty repository whose HEAD points to `branch`.
fn lay_out(path: &Path, branch: &BranchName) -> Result<(), GitError> {
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        fs::create_dir_all(path.join(folder)).map_err(GitError::io("creating the repository"))?;
    }
    let head = [b"ref: ", branch.to_ref().as_bytes(), b"\n"].concat();
    fs::write(path.join("HEAD"), head).map_err(GitError::io("writing HEAD"))?;
    delta_mark::set(path).map_err(GitError::io("marking the repository"))?;
    fs::write(path.join("config"), CONFIG).map_err(GitError::io("writing config"))
}

/// Writes a ref of an unpublished repository; the caller syncs it.
fn write_unpublished(repository: &Path, name: &RefName, target: git2::Oid) -> Result<(), GitError> {
    let path = ref_path(repository, name);
    let parent = path.parent().expect("a ref's file has a folder");
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, format!("{target}\n")));
    written.map_err(GitError::io(format!("writing `{name}`")))
}

/// Returns the path of the loose ref.
pub fn ref_path(repository: &Path, name: &RefName) -> PathBuf {
    repository.join(OsStr::from_bytes(name.as_bytes()))
}

fn list_dir(folder: &Path) -> Result<Vec<fs::DirEntry>, GitError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    entries.map_err(GitError::io(format!("listing `{}`", folder.display())))
}

fn remove(path: &Path) -> Result<(), GitError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    ignore_missing(removed).map_err(GitError::io(format!("removing `{}`", path.display())))
}

#[cfg(test)]
mod tests;
