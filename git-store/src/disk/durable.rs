//! `fsync` of files and folders, and the threads that wait for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Semaphore;

use crate::types::error::GitError;

/// Threads that sync the files of one write in parallel, so that the disk groups them.
pub const PARALLEL_SYNCS: usize = 8;
const MAX_SYNC_THREADS: usize = 32;

/// Threads that wait for the disk. They are reused, so a write starts none.
#[derive(Debug)]
pub struct SyncThreads(Arc<Semaphore>);

impl Default for SyncThreads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_SYNC_THREADS)))
    }
}

impl SyncThreads {
    /// Runs a job that writes and syncs files. It completes even if the caller drops the future.
    ///
    /// # Errors
    /// Those of the job, and `Internal` if it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let work = move || {
            let _permit = permit;
            job()
        };
        #[expect(clippy::disallowed_methods, reason = "bounded by the permits")]
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| GitError::Internal(format!("a sync job failed: {error}")))?
    }
}

/// Syncs a file or folder.
pub fn sync(path: &Path) -> Result<(), GitError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(GitError::io(format!("syncing `{}`", path.display())))
}

/// Syncs a file or folder if it exists. Returns whether it does.
pub fn sync_if_present(path: &Path) -> Result<bool, GitError> {
    match fs::File::open(path) {
        Ok(file) => file.sync_all().map(|()| true).map_err(GitError::io(format!("syncing `{}`", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(GitError::io(format!("opening `{}`", path.display()))(error)),
    }
}

/// Syncs files and folders in parallel. All must exist.
pub fn sync_all(paths: &[PathBuf]) -> Result<(), GitError> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            sync(path)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..PARALLEL_SYNCS.min(paths.len())).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for thread in threads {
            let other = thread.join().map_err(|_| GitError::Internal("a syncing thread panicked".to_owned()));
            result = result.and(other.and_then(|synced| synced));
        }
        result
    })
}

/// Syncs a folder and everything below it.
pub fn sync_tree(root: &Path) -> Result<(), GitError> {
    let mut paths = vec![root.to_owned()];
    let mut index = 0;
    while let Some(path) = paths.get(index).cloned() {
        index += 1;
        if path.is_dir() {
            let list = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let list = list.map_err(GitError::io(format!("listing `{}`", path.display())))?;
            paths.extend(list.into_iter().map(|entry| entry.path()));
        }
    }
    sync_all(&paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_sync_and_missing_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..20 {
            fs::create_dir(folder.path().join(format!("d{index}"))).unwrap();
            fs::write(folder.path().join(format!("d{index}/f")), b"x").unwrap();
        }
        sync_tree(folder.path()).unwrap();
        assert!(sync_all(&[folder.path().to_owned(), folder.path().join("missing")]).is_err());
        assert!(!sync_if_present(&folder.path().join("missing")).unwrap());
    }
}
