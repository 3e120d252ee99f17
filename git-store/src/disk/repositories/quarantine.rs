//! Objects that are received beside a repository and become part of it when they were checked.
//!
//! Not here: the quarantine of pushes, which git itself makes and ends.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ferrite_proto::id::RepositoryId;
use parking_lot::MutexGuard;
use uuid::Uuid;

use super::{QUARANTINE_PREFIX, RepositoryStore, list_dir, remove};
use crate::types::error::GitError;

impl RepositoryStore {
    /// Creates an empty folder for objects in `incoming/`. Blocking.
    ///
    /// The caller ends with [`RepositoryStore::adopt_packs`] and [`RepositoryStore::remove_incoming`]; the folder of a process that was
    /// killed is removed at the next start.
    ///
    /// # Errors
    /// `Io`.
    pub fn begin_quarantine(&self, id: RepositoryId) -> Result<PathBuf, GitError> {
        let folder = self.root.join("incoming").join(format!("{id}-objects-{}", Uuid::new_v4()));
        let made = ["pack", "info"].into_iter().try_for_each(|name| fs::create_dir_all(folder.join(name)));
        made.map_err(GitError::io("making a quarantine"))?;
        Ok(folder)
    }

    /// Moves the packs of a quarantine into the repository, and counts them; durable when it returns. Blocking.
    ///
    /// # Errors
    /// `RepositoryNotFound`, and `Io`.
    pub fn adopt_packs(&self, id: RepositoryId, quarantine: &Path) -> Result<(), GitError> {
        self.check_exists(id)?;
        let is_pack_file = |name: &str| {
            let kind = name.strip_prefix("pack-").and_then(|name| name.rsplit_once('.')).map(|(_, kind)| kind);
            kind.is_some_and(|kind| ["pack", "rev", "idx"].contains(&kind))
        };
        let mut files: Vec<_> = list_dir(&quarantine.join("pack"))?;
        files.retain(|entry| is_pack_file(&entry.file_name().to_string_lossy()));
        // git finds a pack by its index, so the index is moved last.
        files.sort_by_key(|entry| entry.path().extension().is_some_and(|kind| kind == "idx"));
        let packs = self.path(id).join("objects/pack");
        for entry in &files {
            let moved = fs::rename(entry.path(), packs.join(entry.file_name()));
            moved.map_err(GitError::io("taking packs into a repository"))?;
        }
        if files.is_empty() { Ok(()) } else { self.sync_packs(id) }
    }

    /// Returns a guard to hold while a repository is [marked](crate::disk::delta_mark::begin); `None` while another one is. Two at once would
    /// finish what the other has begun.
    pub fn begin_marking(&self) -> Option<MutexGuard<'_, ()>> {
        self.marking.try_lock()
    }

    /// Returns whether objects may be on their way into a repository: there is a quarantine of it, of a push or of this store. Blocking.
    ///
    /// # Errors
    /// `Io`.
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

    /// Removes a folder in `incoming/` with its contents; a missing one is no error. Blocking.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_incoming(&self, folder: &Path) -> Result<(), GitError> {
        remove(folder)
    }
}
