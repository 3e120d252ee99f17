//! Marks repositories without large deltas by a file in their folder. Without the mark, a file may
//! be a delta of one too large to load, so it is looked up before it is read.
//!
//! A new repository has the mark and loses it with the first large delta. An unmarked one is marked
//! in two steps, with a check of its packs in between.

use std::{fs, io, path::Path};

use super::ignore_missing;

const NAME: &str = "no-large-deltas";
/// The file while the packs are being checked.
const NEW_NAME: &str = "no-large-deltas.new";
/// File of a repository that received a large delta. Repositories of earlier versions have none of
/// these files.
const LARGE_NAME: &str = "large-deltas";

/// Marks a repository that has no objects. The caller syncs. Blocking.
pub fn set(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(NAME), b"")
}

/// Returns whether a repository has the mark. Those of earlier versions do not.
pub fn is_set(repository: &Path) -> bool {
    repository.join(NAME).exists()
}

/// Returns whether a repository received a large delta after it was marked.
pub fn has_large(repository: &Path) -> bool {
    repository.join(LARGE_NAME).exists()
}

/// Starts marking, before the packs are checked. Blocking.
pub fn begin(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(NEW_NAME), b"")
}

/// Marks a repository whose packs were checked since [`begin`], unless [`clear`] was called
/// meanwhile. Returns whether it is marked. Blocking.
pub fn finish(repository: &Path) -> io::Result<bool> {
    match fs::rename(repository.join(NEW_NAME), repository.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    ignore_missing(fs::remove_file(repository.join(LARGE_NAME)))?;
    Ok(true)
}

/// Removes the mark durably, before large deltas come in. On an error they must not. Blocking.
pub fn clear(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(LARGE_NAME), b"")?;
    remove(repository)
}

/// Removes the mark durably, so the repository looks like one of an earlier version. Blocking.
pub fn remove(repository: &Path) -> io::Result<()> {
    // The order matters: the first file becomes the second.
    [NEW_NAME, NAME].iter().try_for_each(|name| ignore_missing(fs::remove_file(repository.join(name))))?;
    fs::File::open(repository)?.sync_all()
}

/// Removes the mark of a copy, unless its source `was_set` before the copy and still is. Blocking.
pub fn copy(was_set: bool, source: &Path, copy: &Path) -> io::Result<()> {
    match (was_set && is_set(source), has_large(source)) {
        (true, _) => Ok(()),
        (false, true) => clear(copy),
        (false, false) => remove(copy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_mark_of_its_source() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let marks = || (is_set(one.path()), is_set(two.path()));
        clear(one.path()).unwrap();
        set(one.path()).unwrap();
        set(two.path()).unwrap();
        copy(true, one.path(), two.path()).unwrap();
        assert_eq!(marks(), (true, true));
        clear(one.path()).unwrap();
        copy(true, one.path(), two.path()).unwrap();
        assert_eq!(marks(), (false, false));
        assert!(has_large(two.path()));
        // Maintenance marked the source during the copy.
        set(one.path()).unwrap();
        set(two.path()).unwrap();
        copy(false, one.path(), two.path()).unwrap();
        assert_eq!(marks(), (true, false));
    }

    #[test]
    fn a_mark_that_is_removed_before_it_is_finished_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!finish(folder.path()).unwrap(), "not begun");
        begin(folder.path()).unwrap();
        assert!(!is_set(folder.path()));
        clear(folder.path()).unwrap();
        assert!(!finish(folder.path()).unwrap() && !is_set(folder.path()));
        assert!(has_large(folder.path()));
        begin(folder.path()).unwrap();
        assert!(finish(folder.path()).unwrap() && is_set(folder.path()) && !has_large(folder.path()));
        remove(folder.path()).unwrap();
        assert!(!is_set(folder.path()) && !has_large(folder.path()), "as one of an earlier version");
    }
}
