//! A folder for objects that may not be kept, beside the repositories.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use git2::Oid;

use super::loose_objects::{NewObject, read_object};
use crate::types::error::GitError;

/// Attempts to remove a folder in which a git process that is being stopped may still create files.
const MAX_REMOVALS: usize = 10;

/// An object folder that is removed when dropped. The next start removes what a killed process left.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates an empty folder. Blocking.
    pub(super) fn create(folder: PathBuf) -> Result<Self, GitError> {
        fs::create_dir(&folder).map_err(|error| GitError::io("making a scratch folder")(error).or_full())?;
        Ok(Self { folder })
    }

    /// The folder, for git.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes an object that only this folder needs. Blocking.
    pub fn write(&self, object: &NewObject) -> Result<(), GitError> {
        object.write_unsynced(&self.folder)
    }

    /// Reads an object of the folder; `None` if it is not here. Blocking.
    ///
    /// # Errors
    /// `TooLarge` if it has more than `max_bytes`.
    pub fn read(&self, id: Oid, max_bytes: u64) -> Result<Option<NewObject>, GitError> {
        read_object(&self.folder, id, max_bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for _ in 0..MAX_REMOVALS {
            match fs::remove_dir_all(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(folder = %self.folder.display(), %error, "cannot remove a scratch folder");
                    return;
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use git2::ObjectType;

    use super::*;

    #[test]
    fn objects_are_read_back_and_the_folder_goes() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("scratch");
        let scratch = Scratch::create(folder.clone()).unwrap();
        let long = NewObject::new(ObjectType::Blob, b"line of text\n".repeat(1000)).unwrap();
        let short = NewObject::new(ObjectType::Tree, Vec::new()).unwrap();
        for object in [&long, &short, &long] {
            scratch.write(object).unwrap();
            assert_eq!(scratch.read(object.id(), 13_000).unwrap().as_ref(), Some(object));
        }
        assert!(matches!(scratch.read(long.id(), 12_999), Err(GitError::TooLarge { .. })));
        assert_eq!(scratch.read(Oid::ZERO_SHA1, 9).unwrap(), None);
        drop(scratch);
        assert!(!folder.exists());
    }
}
