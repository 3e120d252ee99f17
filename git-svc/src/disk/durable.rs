//! `fsync` of files, folders and folder trees, several at a time. Not here: which files a write must sync.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::types::error::GitError;

/// Threads that sync at once: enough for the disk to group the writes, few enough to start cheaply.
const PARALLEL_SYNCS: usize = 8;

/// Syncs one file or folder.
pub(crate) fn sync(path: &Path) -> Result<(), GitError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(GitError::io(format!("syncing `{}`", path.display())))
}

/// Syncs a file or folder; a missing one is no error.
pub(crate) fn sync_if_present(path: &Path) -> Result<(), GitError> {
    match fs::File::open(path) {
        Ok(file) => file.sync_all().map_err(GitError::io(format!("syncing `{}`", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GitError::io(format!("opening `{}`", path.display()))(error)),
    }
}

/// Syncs files and folders in parallel; each must exist.
pub(crate) fn sync_all(paths: &[PathBuf]) -> Result<(), GitError> {
    sync_each(paths, sync)
}

/// Syncs files and folders in parallel, each by `sync`.
fn sync_each(paths: &[PathBuf], sync: fn(&Path) -> Result<(), GitError>) -> Result<(), GitError> {
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

/// Syncs the loose files of `objects` and the folders that hold them; objects that are in packs are skipped, and those that maintenance
/// packs meanwhile: their pack was synced first.
///
/// Objects that existed before the write are synced too: git does not write an object again that an earlier, unacknowledged
/// attempt left behind, and that file may be unsynced.
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
    sync_each(&paths, sync_if_present)
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
