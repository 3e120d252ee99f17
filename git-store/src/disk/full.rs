//! Detects a full disk. libgit2 drops the `errno`, and so does git when it writes refs, so we probe
//! the disk itself. Also checks free space before large writes.

use std::{fs, io, path::Path};

use rustix::fs::{FallocateFlags, fallocate};
use uuid::Uuid;

use crate::types::{error::GitError, limits::MAX_FILE_BYTES};

/// Probes `folder` if `error` may come from a failed write. Returns `StoreFull` if the largest file
/// does not fit, `Io` if the probe fails otherwise, and else `error`.
pub fn classify_disk_full(error: GitError, folder: &Path) -> GitError {
    let is_vague = match &error {
        GitError::Git(error) => error.code() == git2::ErrorCode::GenericError,
        GitError::Command { stderr, .. } => stderr.contains("write") || stderr.contains("Unable to create"),
        _ => false,
    };
    if !is_vague {
        return error;
    }
    match probe(folder) {
        Err(cause) => GitError::io("writing objects")(cause).or_full(),
        Ok(()) => error,
    }
}

/// Fails with `StoreFull` unless more than `bytes` are free in the file system of `folder`.
pub fn require_free_space(folder: &Path, bytes: u64) -> Result<(), GitError> {
    let disk = rustix::fs::statvfs(folder).map_err(|error| GitError::io("measuring the free space")(error.into()))?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) > bytes {
        return Ok(());
    }
    Err(GitError::io("checking the free space")(io::ErrorKind::StorageFull.into()).or_full())
}

/// Allocates the size of the largest file and frees it. Succeeds without support for `fallocate`.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("tmp_room-{}", Uuid::new_v4()));
    let allocated =
        fs::File::create(&path).and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, MAX_FILE_BYTES)?));
    // Clean-up removes a leftover in `incoming` or `objects`, but not in a repository's own folder.
    drop(fs::remove_file(&path));
    match allocated {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        allocated => allocated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_room_an_error_stays_what_it_is_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let vague = || GitError::Git(git2::Error::from_str("no error"));
        assert!(matches!(classify_disk_full(vague(), folder.path()), GitError::Git(_)));
        assert!(matches!(classify_disk_full(GitError::Overloaded, folder.path()), GitError::Overloaded));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(matches!(classify_disk_full(vague(), &folder.path().join("missing")), GitError::Io { .. }));
    }

    #[test]
    fn more_than_is_free_is_refused_before_the_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        require_free_space(folder.path(), 0).unwrap();
        assert!(matches!(require_free_space(folder.path(), u64::MAX), Err(GitError::StoreFull)));
    }
}
