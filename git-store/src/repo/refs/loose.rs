//! Moves one existing ref without a git process, which covers most commits and pushes. git does the
//! rest (`transact`).
//!
//! The new value is first written to a synced file outside the repository. As in git's `files`
//! backend, `<ref>.lock` is created and renamed to the ref. Here the lock is a hard link to the
//! prepared file, so a killed process leaves a lock only just before the rename.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use git2::{ObjectType, Oid, Repository};

use super::{edit::RefEdit, read::lookup, transact::lock_path};
use crate::{
    disk::{durable::sync, repositories::ref_path},
    types::error::GitError,
};

/// A file that is removed on drop, unless it was renamed.
#[derive(Debug)]
struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        // A leftover lock is removed later as stale, any other file at the next start.
        drop(fs::remove_file(&self.0));
    }
}

/// A synced file with the new value of a ref. Dropping it removes this name of the file.
#[derive(Debug)]
pub struct PreparedValue(RemovedOnDrop);

impl PreparedValue {
    /// Writes a new file at `path`. Blocking.
    pub(super) fn write(path: PathBuf, target: Oid) -> Result<Self, GitError> {
        let created = File::create_new(&path).map_err(GitError::io("creating a file for a ref"))?;
        let value = Self(RemovedOnDrop(path));
        let written = (&created).write_all(format!("{target}\n").as_bytes()).and_then(|()| created.sync_all());
        written.map_err(GitError::io("writing the value of a ref"))?;
        Ok(value)
    }

    /// Links the file to `path`, the ref's lock; `None` if the lock exists, its folder does not, or
    /// there are no hard links (`EPERM` in link(2)).
    fn lock(&self, path: PathBuf) -> Result<Option<RemovedOnDrop>, GitError> {
        match fs::hard_link(&self.0.0, &path) {
            Ok(()) => Ok(Some(RemovedOnDrop(path))),
            Err(error) if is_left_to_git(error.kind()) => Ok(None),
            Err(error) => Err(GitError::io(format!("locking `{}`", path.display()))(error)),
        }
    }
}

impl RemovedOnDrop {
    /// Renames the file instead of removing it. Returns false if the new name is a folder.
    fn rename_to(self, path: &Path) -> Result<bool, GitError> {
        match fs::rename(&self.0, path) {
            Ok(()) => {
                std::mem::forget(self);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(false),
            Err(error) => Err(GitError::io(format!("replacing `{}`", path.display()))(error)),
        }
    }
}

/// Returns the new value if [`advance`] may be able to move the ref.
pub(super) fn target(edits: &[RefEdit]) -> Option<Oid> {
    let [RefEdit { name, old: Some(_), new }] = edits else { return None };
    new.filter(|_| name.as_str().is_some())
}

/// Moves the ref durably to its prepared value. Returns false if git must do it: symbolic refs and
/// locked ones.
///
/// # Errors
/// `RefConflict` if the ref is not at the old value, `RefTarget` if it may not point to the new
/// one.
pub(super) fn advance(repo: &Repository, edit: &RefEdit, value: &PreparedValue) -> Result<bool, GitError> {
    let (path, lock) = (ref_path(repo.path(), &edit.name), lock_path(repo.path(), &edit.name));
    let Some(lock) = value.lock(lock)? else { return Ok(false) };
    if is_symbolic(&path)? {
        return Ok(false);
    }
    if lookup(repo, &edit.name)? != edit.old {
        return Err(GitError::RefConflict { name: edit.name.to_string() });
    }
    if !edit.new.is_some_and(|new| may_point_to(repo, edit, new)) {
        return Err(GitError::RefTarget { name: edit.name.to_string() });
    }
    if !lock.rename_to(&path)? {
        return Ok(false);
    }
    sync(path.parent().unwrap_or(repo.path()))?;
    Ok(true)
}

/// Returns whether git, which waits for locks and creates folders, may be able to lock the ref.
fn is_left_to_git(error: io::ErrorKind) -> bool {
    use io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, Unsupported};
    matches!(error, AlreadyExists | NotFound | PermissionDenied | Unsupported)
}

fn is_symbolic(path: &Path) -> Result<bool, GitError> {
    match fs::read(path) {
        Ok(content) => Ok(content.starts_with(b"ref:")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(true),
        Err(error) => Err(GitError::io(format!("reading `{}`", path.display()))(error)),
    }
}

/// Returns whether the ref may point to `target`: branches to commits, other refs to any existing object.
pub fn may_point_to(repo: &Repository, edit: &RefEdit, target: Oid) -> bool {
    let header = repo.odb().and_then(|odb| odb.read_header(target));
    header.is_ok_and(|(_, kind)| edit.name.branch().is_none() || kind == ObjectType::Commit)
}
