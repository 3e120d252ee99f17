//! Moves one existing ref without a git process, the case of most commits and pushes. All other changes go through git
//! (`transact`).
//!
//! Follows git's `files` backend: the process that changes a ref creates `<ref>.lock`, writes the new value to it, and
//! renames it to the file of the ref.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use git2::{ObjectType, Oid, Repository};

use super::{edit::RefEdit, read::lookup, transact::lock_path};
use crate::{
    disk::{durable::sync, repositories::ref_path},
    types::error::GitError,
};

/// A lock file, removed when dropped unless it became the ref's file.
struct LockFile {
    path: PathBuf,
    file: File,
    is_ref: bool,
}

impl LockFile {
    /// Creates the lock file at `path`; `None` if it exists or its folder does not.
    fn acquire(path: PathBuf) -> Result<Option<Self>, GitError> {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Some(Self { path, file, is_ref: false })),
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(GitError::io(format!("locking `{}`", path.display()))(error)),
        }
    }

    /// Writes the value and renames the lock file to the ref's file; `None` if a folder of that name exists.
    fn rename_to_ref(mut self, path: &Path, target: Oid) -> Result<Option<()>, GitError> {
        let written = writeln!(self.file, "{target}").and_then(|()| self.file.sync_all());
        written.map_err(GitError::io(format!("writing `{}`", self.path.display())))?;
        match fs::rename(&self.path, path) {
            Ok(()) => self.is_ref = true,
            Err(error) if matches!(error.kind(), io::ErrorKind::IsADirectory) => return Ok(None),
            Err(error) => return Err(GitError::io(format!("replacing `{}`", path.display()))(error)),
        }
        Ok(Some(()))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !self.is_ref {
            // A lock file that cannot be removed is removed as stale later.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Moves the ref durably. Returns `None` if git has to do it: created, deleted and symbolic refs, and locks of other
/// processes.
///
/// # Errors
/// `RefConflict` when the ref is not at the old value, `RefTarget` when it may not point to the new one.
pub(super) fn advance(repo: &Repository, edit: &RefEdit) -> Result<Option<()>, GitError> {
    let (Some(old), Some(new)) = (edit.old, edit.new) else { return Ok(None) };
    let path = ref_path(repo.path(), &edit.name);
    if edit.name.as_str().is_none() {
        return Ok(None);
    }
    let Some(lock) = LockFile::acquire(lock_path(repo.path(), &edit.name))? else { return Ok(None) };
    if is_symbolic(&path)? {
        return Ok(None);
    }
    if lookup(repo, &edit.name)? != Some(old) {
        return Err(GitError::RefConflict { name: edit.name.to_string() });
    }
    if !may_point_to(repo, edit, new) {
        return Err(GitError::RefTarget { name: edit.name.to_string() });
    }
    if lock.rename_to_ref(&path, new)?.is_none() {
        return Ok(None);
    }
    sync(path.parent().unwrap_or(repo.path()))?;
    Ok(Some(()))
}

/// Returns whether the ref's file holds a symbolic ref, or is a folder.
fn is_symbolic(path: &Path) -> Result<bool, GitError> {
    match fs::read(path) {
        Ok(content) => Ok(content.starts_with(b"ref:")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(true),
        Err(error) => Err(GitError::io(format!("reading `{}`", path.display()))(error)),
    }
}

/// Returns whether the ref may point to `target`: branches to commits, other refs to any existing object.
fn may_point_to(repo: &Repository, edit: &RefEdit, target: Oid) -> bool {
    let header = repo.odb().and_then(|odb| odb.read_header(target));
    header.is_ok_and(|(_, kind)| edit.name.branch().is_none() || kind == ObjectType::Commit)
}
