//! The mark of a repository without large deltas: a file in its folder. Where it is missing, a file may be a delta of one that is too large
//! for this process to load, and is looked up before it is read.
//!
//! A new repository has the mark and loses it with the first large delta that comes in. Not here: which deltas are large
//! (`git::pack_stream`), and the look-up (`repo::deltas`).

use std::{fs, io, path::Path};

use super::ignore_missing;

/// Name of the file.
const NAME: &str = "no-large-deltas";

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

/// Removes the mark, durably, before large deltas come into the repository. Blocking.
///
/// # Errors
/// When the file cannot be removed: the deltas must not come in then.
pub fn clear(repository: &Path) -> io::Result<()> {
    if !is_set(repository) {
        return Ok(());
    }
    ignore_missing(fs::remove_file(repository.join(NAME)))?;
    fs::File::open(repository)?.sync_all()
}

/// Removes the mark of a copy whose source has none. Blocking.
///
/// # Errors
/// As [`clear`].
pub fn copy(source: &Path, copy: &Path) -> io::Result<()> {
    if is_set(source) { Ok(()) } else { clear(copy) }
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
        copy(one.path(), two.path()).unwrap();
        assert_eq!(marks(), (true, true));
        clear(one.path()).unwrap();
        copy(one.path(), two.path()).unwrap();
        assert_eq!(marks(), (false, false));
    }
}
