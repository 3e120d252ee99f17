use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// Longest time to wait for the lock, which another process holds while it migrates.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock that excludes other processes and tasks from creating or migrating a SQLite file, and holds it until the returned
/// file is dropped. SQLite's busy timeout does not cover the switch to WAL.
///
/// Polls with an asynchronous sleep, because the holder may be another task of the same thread.
///
/// # Errors
/// When the lock file cannot be opened, or the lock is not free within [`LOCK_TIMEOUT`].
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
