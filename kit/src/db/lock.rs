use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// How long one process waits for another's migration.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Keeps other processes, and other tasks of this one, from making or migrating a SQLite file, until dropped. SQLite's own busy
/// timeout does not cover the switch to WAL.
///
/// Waits without holding up the runtime's threads: the holder may be another task of this very thread.
pub(super) async fn exclusive(database: &Path) -> io::Result<File> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let lock = File::create(name)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the database's lock"));
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
