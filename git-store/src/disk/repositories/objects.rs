//! Writes and syncs new objects of a repository.

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
    /// The threads that wait for the disk on writes.
    pub fn sync_threads(&self) -> &SyncThreads {
        &self.sync_threads
    }

    /// Writes and counts loose objects, as [`write_objects`]. Returns whether the caller must sync
    /// the object folder. Blocking.
    pub fn write_objects(&self, id: RepositoryId, new: &[NewObject]) -> Result<bool, GitError> {
        let written = write_objects(&self.path(id).join("objects"), new)?;
        self.usages.add_loose(id, written.added);
        Ok(written.has_new_folder)
    }

    /// Returns whether the names of all loose object folders are durable, and forgets it: until
    /// [`RepositoryStore::sync_objects`] or [`RepositoryStore::keep_synced`], a write may create
    /// one.
    pub fn take_synced(&self, id: RepositoryId) -> bool {
        self.synced_folders.remove(&id).is_some()
    }

    /// Records that no loose object folder was created since [`RepositoryStore::take_synced`]
    /// returned true.
    pub fn keep_synced(&self, id: RepositoryId) {
        self.synced_folders.insert(id, ());
    }

    /// Makes the names of all loose object folders durable. Blocking.
    pub fn sync_objects(&self, id: RepositoryId) -> Result<(), GitError> {
        sync(&self.path(id).join("objects"))?;
        self.synced_folders.insert(id, ());
        Ok(())
    }

    /// Makes the names of a push's packs durable and counts the packs: git syncs pack files, but
    /// not their folder. Blocking.
    ///
    /// Call it after `receive-pack` has accepted the objects and before refs change.
    pub fn sync_packs(&self, id: RepositoryId) -> Result<(), GitError> {
        let path = self.path(id);
        // Pushes never add loose objects, because of `receive.unpackLimit=1`.
        sync_all(&[path.join("objects/pack"), path.join("objects")])?;
        self.usages.update_packs(id, &path);
        Ok(())
    }
}
