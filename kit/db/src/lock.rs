use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// Another process holds the lock while it migrates.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock for creating or migrating a SQLite file, which SQLite's busy timeout does not
/// cover (switching to WAL), and holds it until the returned file is dropped. Fails if it is not
/// free within [`LOCK_TIMEOUT`].
///
/// Polls with an asynchronous sleep, because the holder may be another task of the same thread.
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
