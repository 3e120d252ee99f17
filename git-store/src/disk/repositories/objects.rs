//! New objects of a repository: writing loose ones, and making durable what was written.

use ferrite_proto::id::RepositoryId;

use super::RepositoryStore;
use crate::{
    disk::{
        durable::{SyncThreads, sync, sync_all},
        loose_objects::{NewObject, write_objects},
    },
    types::error::GitError,
};

impl RepositoryStore {
    /// The threads that wait for the disk when this store is written to.
    pub fn sync_threads(&self) -> &SyncThreads {
        &self.sync_threads
    }

    /// Writes and counts loose objects, as [`write_objects`] does. Returns whether the caller has to sync the folder of objects. Blocking.
    ///
    /// # Errors
    /// `StoreFull`, and `Io`.
    pub fn write_objects(&self, id: RepositoryId, new: &[NewObject]) -> Result<bool, GitError> {
        let written = write_objects(&self.path(id).join("objects"), new)?;
        self.usages.add_loose(id, written.added);
        Ok(written.has_new_folder)
    }

    /// Returns whether the names of all folders of loose objects are on disk, and forgets it: until [`RepositoryStore::sync_objects`] or
    /// [`RepositoryStore::keep_synced`] is called, a write may have created one.
    pub fn take_synced(&self, id: RepositoryId) -> bool {
        self.synced_folders.remove(&id).is_some()
    }

    /// Records that no folder of loose objects was created since [`RepositoryStore::take_synced`] has returned true.
    pub fn keep_synced(&self, id: RepositoryId) {
        self.synced_folders.insert(id, ());
    }

    /// Makes the names of all folders of loose objects durable. Blocking.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_objects(&self, id: RepositoryId) -> Result<(), GitError> {
        sync(&self.path(id).join("objects"))?;
        self.synced_folders.insert(id, ());
        Ok(())
    }

    /// Makes the names of a push's packs durable, and counts the packs: git syncs the pack files, but not the folder that it moves them
    /// into. Blocking.
    ///
    /// Called after `receive-pack` has accepted objects and before refs are changed.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_packs(&self, id: RepositoryId) -> Result<(), GitError> {
        let path = self.path(id);
        // A push never adds loose objects, because of `receive.unpackLimit=1`.
        sync_all(&[path.join("objects/pack"), path.join("objects")])?;
        self.usages.update_packs(id, &path);
        Ok(())
    }
}
