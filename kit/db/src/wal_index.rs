//! Reads the WAL index of SQLite to detect commits of any process.
//!
//! Source of the format: the chapter "The WAL-Index File Format" of <https://www.sqlite.org/walformat.html> ("WAL-mode File Format").
//!
//! Not here: writing the index or locking it, which only SQLite does.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of the header of the WAL index. The file begins with two copies of it.
const HEADER_BYTES: usize = 48;
/// Offset of `isInit` in the header, which is 1 after SQLite has initialized the header.
const IS_INIT_OFFSET: usize = 12;

/// The header of the WAL index at some moment. Two states are equal only if nothing was committed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalState([u8; HEADER_BYTES]);

/// The WAL index of a SQLite database: the `-shm` file that all its processes share. Each commit writes a new header before it
/// returns. A reader must compare the two copies of the header, because they differ while a writer changes them.
#[derive(Clone, Debug)]
pub(super) struct WalIndex {
    file: &'static File,
    path: PathBuf,
    /// Device and inode number of the file.
    id: (u64, u64),
}

impl WalIndex {
    /// Opens the index of a database; `None` if there is none.
    ///
    /// The file is never closed: SQLite holds POSIX locks on it, and a process that closes any descriptor of a file loses all its locks
    /// on that file (fcntl(2)).
    pub(super) fn open(database: &Path) -> Option<Self> {
        let mut name = database.as_os_str().to_owned();
        name.push("-shm");
        let file: &File = Box::leak(Box::new(File::open(&name).ok()?));
        let data = file.metadata().ok()?;
        Some(Self { file, path: name.into(), id: (data.dev(), data.ino()) })
    }

    /// Reads the current state; `None` while a writer changes it, and if the file is no longer the index of the database: SQLite deletes
    /// the index with the last connection and creates another one later.
    pub(super) fn state(&self) -> Option<WalState> {
        let mut header = [0; 2 * HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0).ok()?;
        let now = std::fs::metadata(&self.path).ok()?;
        if (now.dev(), now.ino()) != self.id {
            return None;
        }
        let (first, second) = header.split_at(HEADER_BYTES);
        let is_settled = first == second && first[IS_INIT_OFFSET] != 0;
        is_settled.then_some(WalState(first.try_into().ok()?))
    }
}
