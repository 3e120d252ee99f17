//! The data version of a SQLite file, which shows a process that something was committed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

/// Changes with every commit of another connection, in this process or in another.
///
/// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
const VERSION: &str = "PRAGMA data_version";

/// The data version at some moment. Equal versions of one reader mean that nothing was committed in
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataVersion(i64);

/// Reads the version on its own read-only connection, because SQLite does not count the commits of
/// the connection that asks. Reads in the caller's thread: switching to the thread of a sqlx
/// connection costs as much as most queries. Clones share the connection.
#[derive(Clone, Debug)]
pub(super) struct DataVersionReader(Arc<Mutex<Option<Connection>>>);

impl DataVersionReader {
    /// Opens a connection to an existing file. If that fails, every version is unknown.
    pub(super) fn open(database: &Path) -> Self {
        Self(Arc::new(Mutex::new(connect(database).ok())))
    }

    /// Reads the version; `None` if SQLite would have to wait for another process, and after
    /// [`DataVersionReader::close`].
    pub(super) fn read(&self) -> Option<DataVersion> {
        let connection = self.0.lock();
        let mut statement = connection.as_ref()?.prepare_cached(VERSION).ok()?;
        let version: i64 = statement.query_row([], |row| row.get(0)).ok()?;
        Some(DataVersion(version))
    }

    /// Closes the connection. Must not be closed last: the last connection to a file checkpoints
    /// the write-ahead log, which this one cannot.
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
