//! Whether there is room to write. libgit2 forgets why a write failed, and git does for refs; so the disk is asked.

use std::{fs, io, path::Path};

use rustix::fs::{FallocateFlags, fallocate};
use uuid::Uuid;

use crate::types::{error::GitError, limits::MAX_FILE_BYTES};

/// The same failure, or the reason for it, if a write may have failed and there is no room in `folder` for the largest file.
pub(crate) fn classify_disk_full(error: GitError, folder: &Path) -> GitError {
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

/// Asks for room for the largest file, and gives it back. A file system that cannot say is taken to have room.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("tmp_room-{}", Uuid::new_v4()));
    let asked =
        fs::File::create(&path).and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, MAX_FILE_BYTES)?));
    // What cannot be removed is removed with other temporary files.
    drop(fs::remove_file(&path));
    match asked {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        asked => asked,
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
}
