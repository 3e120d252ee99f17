//! The mark of a repository without large deltas: a file in its folder. Where it is missing, a file may be a delta of one that is too large
//! for this process to load, and is looked up before it is read.
//!
//! A new repository has the mark and loses it with the first large delta that comes in. One that has none is marked in two steps, and its
//! packs are looked at in between. Not here: which deltas are large (`git::pack_stream`), and the look-up (`repo::deltas`).

use std::{fs, io, path::Path};

use super::ignore_missing;

/// Name of the file.
const NAME: &str = "no-large-deltas";
/// Name of the file until the packs were looked at.
const NEW_NAME: &str = "no-large-deltas.new";
/// Name of the file of a repository that got a large delta. One without any of these files is of an earlier version.
const LARGE_NAME: &str = "large-deltas";

/// Marks a repository that has no objects. The caller makes it durable. Blocking.
///
/// # Errors
/// When the file cannot be written.
pub fn set(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(NAME), b"")
}

/// Returns whether a repository has the mark. A repository of an earlier version has none.
pub fn is_set(repository: &Path) -> bool {
    repository.join(NAME).exists()
}

/// Returns whether a repository got a large delta since it was marked.
pub fn has_large(repository: &Path) -> bool {
    repository.join(LARGE_NAME).exists()
}

/// Begins to mark a repository, before its packs are looked at. Blocking.
///
/// # Errors
/// When the file cannot be written.
pub fn begin(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(NEW_NAME), b"")
}

/// Marks a repository whose packs were looked at since [`begin`], unless [`clear`] was called meanwhile. Returns whether it is marked.
/// Blocking.
///
/// # Errors
/// When the file cannot be renamed.
pub fn finish(repository: &Path) -> io::Result<bool> {
    match fs::rename(repository.join(NEW_NAME), repository.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    ignore_missing(fs::remove_file(repository.join(LARGE_NAME)))?;
    Ok(true)
}

/// Removes the mark, durably, before large deltas come into the repository. Blocking.
///
/// # Errors
/// When the files cannot be changed: the deltas must not come in then.
pub fn clear(repository: &Path) -> io::Result<()> {
    fs::write(repository.join(LARGE_NAME), b"")?;
    remove(repository)
}

/// Removes the mark, durably, as if the repository was of an earlier version. Blocking.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove(repository: &Path) -> io::Result<()> {
    // In this order: the one becomes the other.
    [NEW_NAME, NAME].iter().try_for_each(|name| ignore_missing(fs::remove_file(repository.join(name))))?;
    fs::File::open(repository)?.sync_all()
}

/// Removes the mark of a copy, unless its source `was_set` before the copy and still has one. Blocking.
///
/// # Errors
/// As [`clear`].
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
        // Maintenance has marked the source while it was copied.
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
