//! The data folder, locked by one launcher and accessible only to its owner.

use std::fmt::Display;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PRIVATE_FOLDER_MODE: u32 = 0o700;
pub(super) const PRIVATE_FILE_MODE: u32 = 0o600;

/// Holds the lock until dropped.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| unusable_folder(path, &error);
        create_private_folder(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE_FILE_MODE)
            .open(path.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(unusable_folder(&path, &"in use by another `ferrite up`"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        create_private_folder(&path.join("run")).map_err(failed)?;
        create_private_folder(&path.join("git")).map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    /// Makes the folder the working directory of this process and its children, because paths of
    /// Unix sockets must be short.
    pub(super) fn enter(&self) -> Result<(), String> {
        std::env::set_current_dir(&self.path).map_err(|error| unusable_folder(&self.path, &error))
    }
}

/// Returns the error of a data folder that cannot be used.
pub(crate) fn unusable_folder(path: &Path, reason: &dyn Display) -> String {
    format!("data folder {}: {reason}; choose another with --data (FERRITE_DATA)", path.display())
}

/// Creates the folder if necessary and closes it to other users.
pub(crate) fn create_private_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER_MODE).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER_MODE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_once_and_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let held = DataFolder::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let message = DataFolder::open(&path).unwrap_err();
        assert!(message.contains("in use by another `ferrite up`; choose another with --data"), "{message}");
        drop(held);
        DataFolder::open(&path).unwrap();
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("file");
        std::fs::write(&path, "").unwrap();
        let message = DataFolder::open(&path).unwrap_err();
        assert!(message.contains("file"), "{message}");
    }
}
