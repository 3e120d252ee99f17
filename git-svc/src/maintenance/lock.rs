//! The maintenance lock of a repository: a file that is locked while a maintenance command of git
//! runs. git inherits the lock, so it outlives a crash of this service.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use git_store::types::error::GitError;

/// The name must not change: commands started by an earlier version may still hold the lock.
const LOCK_FILE: &str = "upkeep";
/// A new process holds copies of all open files, and so of all locks, until it executes its
/// program. Only a lock held longer than this is held by a git command.
const MAX_START_OF_PROCESS: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Takes the lock, which is held until all copies of the file are closed. Returns `None` if a git
/// process holds it. Blocking.
pub(super) fn take(repository: &Path) -> Result<Option<fs::File>, GitError> {
    let file = fs::File::options().create(true).truncate(false).write(true).read(true).open(repository.join(LOCK_FILE));
    let file = file.map_err(GitError::io("taking the maintenance lock"))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) if start.elapsed() < MAX_START_OF_PROCESS => {
                thread::sleep(RETRY_INTERVAL);
            }
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(GitError::io("taking the maintenance lock")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_closed_soon_is_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        let held = take(folder.path()).unwrap().unwrap();
        assert!(take(folder.path()).unwrap().is_none());
        let copy = held.try_clone().unwrap();
        drop(held);
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(copy);
        });
        assert!(take(folder.path()).unwrap().is_some());
        other.join().unwrap();
    }
}
