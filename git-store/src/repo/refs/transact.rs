//! Ref transactions with one `git update-ref` process and a sync of the ref folders.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use git2::Oid;

use super::edit::RefEdit;
use crate::{
    disk::{
        durable::sync_all,
        ignore_missing,
        repositories::{PACKED_REFS_NEW, ref_path},
    },
    git::command::Git,
    types::{error::GitError, name::RefName},
};

pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// A lock file is stale this long after a transaction's time limit, when the process that created
/// it must have ended.
const STALE_LOCK_MARGIN: Duration = Duration::from_secs(5);

/// Files with which git changes `packed-refs`.
const PACKED_REFS_FILES: [&str; 2] = ["packed-refs.lock", PACKED_REFS_NEW];

/// Extra time per ref: git writes and syncs one file after the other.
const TIME_PER_REF: Duration = Duration::from_millis(50);

/// Runs the transaction within [`DEADLINE`] plus [`TIME_PER_REF`] per ref. If stale locks block it,
/// removes them and tries once more.
pub(super) async fn run(git: &Git, repository: &Path, edits: &[RefEdit]) -> Result<(), GitError> {
    let input = script(edits)?;
    let deadline = DEADLINE + TIME_PER_REF * u32::try_from(edits.len()).unwrap_or(u32::MAX);
    let outcome = git.update_ref(repository)?.finish(&input, deadline).await;
    let Err(GitError::Command { stderr, .. }) = &outcome else { return outcome.map(drop) };
    let names_file = [".lock", PACKED_REFS_NEW].iter().any(|name| stderr.contains(name));
    if names_file && remove_stale_locks(repository, edits, deadline) {
        let again = git.update_ref(repository)?.finish(&input, deadline).await;
        return again.map(drop).map_err(|error| classify(error, edits));
    }
    outcome.map(drop).map_err(|error| classify(error, edits))
}

fn script(edits: &[RefEdit]) -> Result<Vec<u8>, GitError> {
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

/// Maps git's messages, which `LC_ALL=C` keeps constant, to typed errors.
fn classify(error: GitError, edits: &[RefEdit]) -> GitError {
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

/// Returns the ref name quoted in a git message, or else the first edit's.
fn quoted_ref(stderr: &str, edits: &[RefEdit]) -> String {
    let named = edits.iter().find(|edit| stderr.contains(&format!("'{}'", edit.name)));
    named.or(edits.first()).map_or_else(String::new, |edit| edit.name.to_string())
}

/// Removes stale locks of the edited refs, `packed-refs` and `HEAD`. Returns whether it did.
fn remove_stale_locks(repository: &Path, edits: &[RefEdit], deadline: Duration) -> bool {
    let mut locks: Vec<_> = edits.iter().map(|edit| lock_path(repository, &edit.name)).collect();
    locks.push(repository.join("HEAD.lock"));
    let is_packed_removed = remove_stale_packed(repository, deadline);
    is_packed_removed | (locks.iter().filter(|lock| remove_stale(lock, deadline)).count() > 0)
}

/// Removes stale files of a killed change of `packed-refs`. Returns whether there were any.
pub(super) fn remove_stale_packed(repository: &Path, deadline: Duration) -> bool {
    PACKED_REFS_FILES.iter().filter(|name| remove_stale(&repository.join(name), deadline)).count() > 0
}

/// Removes a lock file if it is stale. Returns whether it was.
fn remove_stale(lock: &Path, deadline: Duration) -> bool {
    let modified = fs::metadata(lock).and_then(|data| data.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > deadline + STALE_LOCK_MARGIN))
        && fs::remove_file(lock).is_ok()
}

pub(super) fn remove(lock: &Path) {
    if let Err(error) = ignore_missing(fs::remove_file(lock)) {
        tracing::warn!(path = %lock.display(), %error, "cannot remove a stale ref lock");
    }
}

pub(super) fn lock_path(repository: &Path, name: &RefName) -> PathBuf {
    let mut path = ref_path(repository, name).into_os_string();
    path.push(".lock");
    path.into()
}

/// Syncs the folders whose entries changed: those above each ref up to `refs`, and after a deletion
/// the repository itself, which holds `packed-refs`.
pub(super) fn sync_names(repository: &Path, edits: &[RefEdit]) -> Result<(), GitError> {
    let mut folders = BTreeSet::new();
    for edit in edits {
        let path = ref_path(repository, &edit.name);
        folders.extend(path.ancestors().skip(1).take_while(|folder| *folder != repository).map(Path::to_owned));
        if edit.new.is_none() {
            folders.insert(repository.to_owned());
        }
    }
    // A deletion also removes emptied folders.
    let folders: Vec<_> = folders.into_iter().filter(|folder| folder.is_dir()).collect();
    sync_all(&folders)
}
