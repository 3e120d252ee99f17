//! Getting files and folders onto the disk, several at a time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::types::error::GitError;

/// How many files are synced at once: enough for the disk to group them, few enough to be cheap.
const PARALLEL_SYNCS: usize = 8;

/// Syncs one file or folder.
pub(crate) fn sync(path: &Path) -> Result<(), GitError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(GitError::io(format!("syncing `{}`", path.display())))
}

/// Syncs one folder if it is there.
pub(crate) fn sync_if_present(path: &Path) -> Result<(), GitError> {
    match fs::File::open(path) {
        Ok(file) => file.sync_all().map_err(GitError::io(format!("syncing `{}`", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GitError::io(format!("opening `{}`", path.display()))(error)),
    }
}

/// Syncs all of them, in parallel. Each must exist.
pub(crate) fn sync_all(paths: &[PathBuf]) -> Result<(), GitError> {
    if let [path] = paths {
        return sync(path);
    }
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
pub(crate) fn sync_tree(root: &Path) -> Result<(), GitError> {
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

/// Syncs the loose files of `objects`, those that are loose, and the folders that name them.
///
/// Not only those that are new: one left behind, unsynced, by an attempt that was never acknowledged counts as present.
pub(crate) fn sync_objects(repository: &Path, objects: &[git2::Oid]) -> Result<(), GitError> {
    let folder = repository.join("objects");
    let mut paths = vec![folder.clone()];
    for id in objects {
        let hex = id.to_string();
        let (dir, rest) = hex.split_at(2);
        let dir = folder.join(dir);
        let file = dir.join(rest);
        if file.is_file() {
            paths.push(file);
            if !paths.contains(&dir) {
                paths.push(dir);
            }
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
        sync_if_present(&folder.path().join("missing")).unwrap();
    }
}
