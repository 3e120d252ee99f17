//! Changing refs: one `git update-ref` process for all of them, then a sync of the folders that name them.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use git2::Oid;

use super::Edit;
use crate::{command::Git, error::GitError, name::RefName, write::durable::sync_if_present};

/// How long one transaction may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// A lock file older than this has no owner: every owner is ended well before.
const STALE: Duration = Duration::from_secs(15);

/// Runs the transaction. Lock files that a killed process left behind are removed, once.
pub(super) async fn run(git: &Git, repository: &Path, edits: &[Edit]) -> Result<(), GitError> {
    let input = script(edits)?;
    let outcome = git.update_ref(repository)?.finish(&input, DEADLINE).await;
    let Err(GitError::Command { stderr, .. }) = &outcome else { return outcome.map(drop) };
    if stderr.contains(".lock") && remove_stale_locks(repository, edits) {
        let again = git.update_ref(repository)?.finish(&input, DEADLINE).await;
        return again.map(drop).map_err(|error| classify(error, edits));
    }
    outcome.map(drop).map_err(|error| classify(error, edits))
}

/// What `update-ref --stdin -z` is told.
fn script(edits: &[Edit]) -> Result<Vec<u8>, GitError> {
    let mut script = b"start\0".to_vec();
    for edit in edits {
        let name = edit.name.as_bytes();
        let (old, new) =
            (edit.old.unwrap_or(Oid::ZERO_SHA1).to_string(), edit.new.unwrap_or(Oid::ZERO_SHA1).to_string());
        match (edit.old, edit.new) {
            (None, None) => return Err(GitError::RefTarget { name: edit.name.to_string() }),
            (_, Some(_)) => {
                for part in [b"update ", name, b"\0", new.as_bytes(), b"\0", old.as_bytes(), b"\0"] {
                    script.extend_from_slice(part);
                }
            }
            (Some(_), None) => {
                for part in [b"delete ", name, b"\0", old.as_bytes(), b"\0"] {
                    script.extend_from_slice(part);
                }
            }
        }
    }
    script.extend_from_slice(b"prepare\0commit\0");
    Ok(script)
}

/// Turns git's words, which `LC_ALL=C` keeps constant, into our own failures.
fn classify(error: GitError, edits: &[Edit]) -> GitError {
    let GitError::Command { stderr, .. } = &error else { return error };
    let name = quoted_ref(stderr, edits);
    let says = |texts: &[&str]| texts.iter().any(|text| stderr.contains(text));
    if says(&["exists; cannot create", "at the same time", "there is a non-empty directory", "multiple updates for"]) {
        return GitError::RefNameClash { name };
    }
    if says(&[
        "nonexistent object",
        "non-commit object",
        "invalid new value",
        "invalid ref format",
        "bad ref name",
        "bad name",
    ]) {
        return GitError::RefTarget { name };
    }
    if says(&["but expected", "already exists", "unable to resolve reference", "reference is missing", "File exists"]) {
        return GitError::RefConflict { name };
    }
    error
}

/// The ref that git complains about; the first one if it names none.
fn quoted_ref(stderr: &str, edits: &[Edit]) -> String {
    let named = edits.iter().find(|edit| stderr.contains(&format!("'{}'", edit.name)));
    named.or(edits.first()).map_or_else(String::new, |edit| edit.name.to_string())
}

/// Removes the lock files in the way if they have no owner; whether any was removed.
fn remove_stale_locks(repository: &Path, edits: &[Edit]) -> bool {
    let mut locks: Vec<PathBuf> = edits
        .iter()
        .map(|edit| {
            let mut path = loose(repository, &edit.name).into_os_string();
            path.push(".lock");
            path.into()
        })
        .collect();
    locks.push(repository.join("packed-refs.lock"));
    locks.push(repository.join("HEAD.lock"));
    locks.iter().filter(|lock| remove_stale(lock)).count() > 0
}

/// Removes a lock file that has no owner; whether it did.
pub(super) fn remove_stale(lock: &Path) -> bool {
    let modified = fs::metadata(lock).and_then(|data| data.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > STALE)) && fs::remove_file(lock).is_ok()
}

/// Where the ref's own file is, if it is not packed.
pub(super) fn loose(repository: &Path, name: &RefName) -> PathBuf {
    repository.join(OsStr::from_bytes(name.as_bytes()))
}

/// Syncs the folders whose entries changed: those of each ref up to `refs`, and the repository's for `packed-refs`.
pub(super) fn sync_names(repository: &Path, edits: &[Edit]) -> Result<(), GitError> {
    let mut folders = BTreeSet::new();
    for edit in edits {
        let path = loose(repository, &edit.name);
        folders.extend(path.ancestors().skip(1).take_while(|folder| *folder != repository).map(Path::to_owned));
        if edit.new.is_none() {
            folders.insert(repository.to_owned());
        }
    }
    // A deletion removes folders that became empty.
    folders.iter().rev().try_for_each(|folder| sync_if_present(folder))
}
