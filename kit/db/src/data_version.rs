//! The version of the data in a SQLite file, by which a process learns of commits.
//!
//! Not here: what is kept for a version, which is in `cache`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

/// Returns a number that is another one after each commit of another connection, in this process or in another.
///
/// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
const VERSION: &str = "PRAGMA data_version";

/// The version of the data at some moment. Two that one reader has read are equal only if nothing was committed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataVersion(i64);

/// Reads the version on a connection of its own, which cannot write: SQLite does not count the commits of the connection that asks. It
/// reads in the thread of the caller. A connection of sqlx has a thread, and going there costs as much as most queries. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct DataVersionReader(Arc<Mutex<Option<Connection>>>);

impl DataVersionReader {
    /// Opens a connection to a file that exists. If that fails, every version is unknown.
    pub(super) fn open(database: &Path) -> Self {
        Self(Arc::new(Mutex::new(connect(database).ok())))
    }

    /// Reads the version; `None` if SQLite cannot read it without waiting for another process, and after [`DataVersionReader::close`].
    pub(super) fn read(&self) -> Option<DataVersion> {
        let connection = self.0.lock();
        let mut statement = connection.as_ref()?.prepare_cached(VERSION).ok()?;
        let version: i64 = statement.query_row([], |row| row.get(0)).ok()?;
        Some(DataVersion(version))
    }

    /// Closes the connection. The last one to a file moves the write-ahead log into it, which this one cannot: others are closed later.
    pub(super) fn close(&self) {
        drop(self.0.lock().take());
    }
}

fn connect(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}
