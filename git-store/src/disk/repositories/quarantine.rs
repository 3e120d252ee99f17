//! Objects received outside a repository, and moved in once checked. git itself handles the
//! quarantine of pushes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ferrite_proto::id::RepositoryId;
use parking_lot::MutexGuard;
use uuid::Uuid;

use super::{QUARANTINE_PREFIX, RepositoryStore, list_dir, remove};
use crate::{disk::scratch::Scratch, git::pack_file::PackFile, types::error::GitError};

/// Sizes of the packs in a quarantine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackSizes {
    /// Bytes of packs and indexes.
    pub bytes: u64,
    /// Number of objects.
    pub objects: u64,
}

impl RepositoryStore {
    /// Creates an empty object folder in `incoming/`. Blocking.
    ///
    /// The caller ends with [`RepositoryStore::adopt_packs`] and
    /// [`RepositoryStore::remove_incoming`]. The next start removes what a killed process left.
    pub fn begin_quarantine(&self, id: RepositoryId) -> Result<PathBuf, GitError> {
        let folder = self.root.join("incoming").join(format!("{id}-objects-{}", Uuid::new_v4()));
        let made = ["pack", "info"].into_iter().try_for_each(|name| fs::create_dir_all(folder.join(name)));
        made.map_err(GitError::io("making a quarantine"))?;
        Ok(folder)
    }

    /// Creates an object folder for what may not be kept, such as the trees of an attempted merge.
    /// Blocking.
    pub fn make_scratch(&self, id: RepositoryId) -> Result<Scratch, GitError> {
        self.check_exists(id)?;
        Scratch::create(self.root.join("incoming").join(format!("{id}-scratch-{}", Uuid::new_v4())))
    }

    /// Measures the packs of a quarantine, including unfinished ones. Objects are counted once their
    /// pack is finished. Blocking.
    pub fn pack_sizes(&self, quarantine: &Path) -> Result<PackSizes, GitError> {
        let mut sizes = PackSizes::default();
        for entry in list_dir(&quarantine.join("pack"))? {
            // git renames its temporary files meanwhile.
            let Ok(data) = entry.metadata() else { continue };
            sizes.bytes += data.len();
            if entry.path().extension().is_some_and(|kind| kind == "idx") {
                let pack = PackFile::open(&entry.path()).map_err(GitError::io("reading a pack"))?;
                sizes.objects += pack.map_or(0, |pack| u64::from(pack.count()));
            }
        }
        Ok(sizes)
    }

    /// Moves the packs of a quarantine into the repository durably, and counts them. A pack that is
    /// there already, from an earlier attempt, stays: another process may be about to remove it, file
    /// by file, after it has combined it with others. Blocking.
    pub fn adopt_packs(&self, id: RepositoryId, quarantine: &Path) -> Result<(), GitError> {
        self.check_exists(id)?;
        let is_pack_file = |name: &str| {
            let kind = name.strip_prefix("pack-").and_then(|name| name.rsplit_once('.')).map(|(_, kind)| kind);
            kind.is_some_and(|kind| ["pack", "rev", "idx"].contains(&kind))
        };
        let mut files: Vec<_> = list_dir(&quarantine.join("pack"))?;
        files.retain(|entry| is_pack_file(&entry.file_name().to_string_lossy()));
        // git finds a pack by its index, so move the index last.
        files.sort_by_key(|entry| entry.path().extension().is_some_and(|kind| kind == "idx"));
        let packs = self.path(id).join("objects/pack");
        let is_there = |entry: &fs::DirEntry| {
            let path = packs.join(entry.file_name());
            ["pack", "idx"].iter().all(|kind| path.with_extension(kind).exists())
        };
        for entry in &files {
            if is_there(entry) {
                continue;
            }
            let moved = fs::rename(entry.path(), packs.join(entry.file_name()));
            moved.map_err(GitError::io("moving packs into a repository"))?;
        }
        if files.is_empty() { Ok(()) } else { self.sync_packs(id) }
    }

    /// Returns a guard for [marking](crate::disk::delta_mark::begin) a repository; `None` while
    /// another is being marked. Two at once would finish each other's work.
    pub fn begin_marking(&self) -> Option<MutexGuard<'_, ()>> {
        self.marking.try_lock()
    }

    /// Returns whether objects may be arriving: there is a quarantine, from a push or this store.
    /// Blocking.
    pub fn has_quarantine(&self, id: RepositoryId) -> Result<bool, GitError> {
        let own_prefix = format!("{id}-objects-");
        let folders =
            [(self.path(id).join("objects"), QUARANTINE_PREFIX), (self.root.join("incoming"), own_prefix.as_str())];
        for (folder, prefix) in folders {
            if list_dir(&folder)?.iter().any(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a folder in `incoming/` with its contents, if it exists. Blocking.
    pub fn remove_incoming(&self, folder: &Path) -> Result<(), GitError> {
        remove(folder)
    }
}
