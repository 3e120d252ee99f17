//! Detects a full disk behind a write error without a cause: libgit2 drops the `errno`, and so does git when it writes
//! refs, so the disk itself is probed; and measures its room before large writes. Not here: errors that name their cause ([`GitError::or_full`]).

use std::{fs, io, path::Path};

use rustix::fs::{FallocateFlags, fallocate};
use uuid::Uuid;

use crate::types::{error::GitError, limits::MAX_FILE_BYTES};

/// Probes `folder` if `error` may come from a failed write. Returns `StoreFull` when the largest file has no space there,
/// `Io` when the probe fails otherwise, and `error` itself when the probe succeeds.
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

/// Checks that more than `bytes` are free in the file system of `folder`.
///
/// # Errors
/// `StoreFull`, and `Io` when the file system cannot be measured.
pub fn require_free_space(folder: &Path, bytes: u64) -> Result<(), GitError> {
    let disk = rustix::fs::statvfs(folder).map_err(|error| GitError::io("measuring the disk")(error.into()))?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) > bytes {
        return Ok(());
    }
    Err(GitError::io("looking for room")(io::ErrorKind::StorageFull.into()).or_full())
}

/// Allocates the size of the largest file and frees it. A file system that does not support `fallocate` counts as having
/// space.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("tmp_room-{}", Uuid::new_v4()));
    let allocated =
        fs::File::create(&path).and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, MAX_FILE_BYTES)?));
    // A probe file that stays in `incoming` or `objects` is removed as an abandoned file; one in a repository's own
    // folder is not.
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
