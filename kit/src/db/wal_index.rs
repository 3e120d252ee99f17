use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of the header of SQLite's WAL index, which stands there twice.
const HEADER: usize = 48;
/// Where it says whether it is one.
const IS_SET: usize = 12;

/// What a database was like at some time: equal to what it is like at another only if nothing was committed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalState([u8; HEADER]);

/// The file in which SQLite tells all processes how far its log goes: each commit writes a new header there before it returns. What
/// is in it, and that its two copies must be equal, is from the chapter on the WAL index of "SQLite WAL-mode File Format".
#[derive(Clone, Debug)]
pub(super) struct WalIndex {
    file: &'static File,
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
}

impl WalIndex {
    /// Opens the index of a database; `None` when there is none.
    ///
    /// It is never closed: SQLite holds its locks on this file, and a process that closes any handle of a file loses its locks.
    pub(super) fn open(database: &Path) -> Option<Self> {
        let mut name = database.as_os_str().to_owned();
        name.push("-shm");
        let file: &File = Box::leak(Box::new(File::open(&name).ok()?));
        let data = file.metadata().ok()?;
        Some(Self { file, path: name.into(), id: (data.dev(), data.ino()) })
    }

    /// The state now; `None` while somebody changes it, and when this is not the database's index any more: SQLite removes it with the
    /// last connection, and makes another one.
    pub(super) fn state(&self) -> Option<WalState> {
        let mut header = [0; 2 * HEADER];
        self.file.read_exact_at(&mut header, 0).ok()?;
        let now = std::fs::metadata(&self.path).ok()?;
        if (now.dev(), now.ino()) != self.id {
            return None;
        }
        let (first, second) = header.split_at(HEADER);
        let is_settled = first == second && first[IS_SET] != 0;
        is_settled.then_some(WalState(first.try_into().ok()?))
    }
}
