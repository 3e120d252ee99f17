//! Free space on the store's disk, for placing repositories. Cached for a few seconds.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;
use uuid::Uuid;

use super::repositories::RepositoryStore;
use crate::types::error::GitError;

const MAX_AGE: Duration = Duration::from_secs(2);

/// Space on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes available.
    pub free_bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
    /// False if files cannot be created for a reason other than a full disk.
    pub is_writable: bool,
}

/// Caches the last measurement. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DiskSpaceMeter(Arc<Mutex<Option<(Instant, DiskSpace)>>>);

impl DiskSpaceMeter {
    /// Returns the space on the disk of `store`.
    pub async fn measure(&self, store: &Arc<RepositoryStore>) -> Result<DiskSpace, GitError> {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some((measured, space)) = *last
            && measured.elapsed() < MAX_AGE
        {
            return Ok(space);
        }
        let folder = store.root().join("incoming");
        // The job keeps the lock: a hanging disk blocks one thread, even if the callers have left.
        let work = move || {
            let space = space_of(&folder)?;
            *last = Some((Instant::now(), space));
            Ok(space)
        };
        #[expect(clippy::disallowed_methods, reason = "one at a time, under the lock")]
        let measured = tokio::task::spawn_blocking(work).await;
        measured.map_err(|error| GitError::Internal(format!("could not measure the disk: {error}")))?
    }
}

fn space_of(folder: &Path) -> Result<DiskSpace, GitError> {
    let disk = rustix::fs::statvfs(folder).map_err(|error| GitError::io("measuring the disk")(error.into()))?;
    Ok(DiskSpace {
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
        is_writable: is_writable(folder),
    })
}

/// Creates and removes a file. A leftover is removed with unfinished repositories.
fn is_writable(folder: &Path) -> bool {
    let path = folder.join(format!("tmp_probe-{}", Uuid::new_v4()));
    let made = fs::File::create_new(&path);
    let is_writable = made.is_ok() || made.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull);
    drop(fs::remove_file(&path));
    is_writable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_tells_the_room_on_its_disk_and_leaves_nothing_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let meter = DiskSpaceMeter::default();
        let space = meter.measure(&store).await.unwrap();
        assert!(space.is_writable && space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
        assert_eq!(fs::read_dir(store.root().join("incoming")).unwrap().count(), 0);
        assert_eq!(meter.measure(&store).await.unwrap(), space, "figures of this moment are given again");
    }

    #[test]
    fn a_folder_without_a_file_system_cannot_be_measured() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(space_of(&folder.path().join("missing")), Err(GitError::Io { .. })));
        assert!(!is_writable(&folder.path().join("missing")));
    }
}
