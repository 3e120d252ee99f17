//! Cache of archive files: each is made once, read by all requests while it is being made and after, and deleted when
//! others need the space. The files take at most `capacity` bytes, and beyond that only those that are being made or
//! read. Not here: making an archive (`produce`).

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use ferrite_proto::id::RepositoryId;
use futures_util::{Stream, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncSeekExt as _},
    sync::watch,
};

use super::plan::ArchiveLimits;
use crate::{
    transfer::cache_file::{CacheDisk, CacheFile},
    types::error::GitError,
};

/// Maximum bytes of one chunk of a reader.
const CHUNK_BYTES: usize = 128 << 10;
/// Maximum time for making one archive, including the wait for a permit.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(150);
/// Interval at which a producer checks its readers, its deadline and the size of the cache.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// All cached archives of a store. Clones share their state.
#[derive(Clone)]
pub(crate) struct ArchiveCache(Arc<Inner>);

struct Inner {
    disk: Arc<CacheDisk>,
    limits: ArchiveLimits,
    entries: Mutex<HashMap<String, CacheEntry>>,
}

struct CacheEntry {
    repository: RepositoryId,
    archive: Arc<CachedArchive>,
    readers: Weak<()>,
    used: Instant,
}

/// A cached archive. Its file is deleted when the last `Arc` is dropped.
struct CachedArchive {
    file: CacheFile,
    progress: watch::Sender<Progress>,
}

/// Removes archives if they take too much, when a reader or producer is dropped. Declared after its handle on the archive,
/// and so dropped after it: the archive is unused by then.
struct EvictOnDrop(ArchiveCache);

impl Drop for EvictOnDrop {
    fn drop(&mut self) {
        self.0.evict();
    }
}

#[derive(Clone, Default)]
struct Progress {
    written: u64,
    end: Option<Result<(), Arc<GitError>>>,
}

/// Reader of a cached archive. A producer without readers stops.
pub(crate) struct Reader {
    archive: Arc<CachedArchive>,
    progress: watch::Receiver<Progress>,
    _waiting: Arc<()>,
    _evict: EvictOnDrop,
}

/// Handle for making a cached archive. If it is dropped before [`Producer::finish`], the archive has failed.
pub(super) struct Producer {
    key: String,
    archive: Arc<CachedArchive>,
    readers: Weak<()>,
    deadline: Instant,
    archives: EvictOnDrop,
}

impl ArchiveCache {
    /// Opens the cache below `cache`, and deletes the archives of an earlier process. Blocking.
    pub(crate) fn open(cache: &Path, limits: ArchiveLimits, capacity: u64) -> Result<Self, GitError> {
        let gauge = metrics::gauge!("ferrite_git_archive_cache_bytes");
        let disk = CacheDisk::open(cache.join("archives"), capacity, gauge)?;
        Ok(Self(Arc::new(Inner { disk, limits, entries: Mutex::default() })))
    }

    pub(super) fn limits(&self) -> ArchiveLimits {
        self.0.limits
    }

    /// Returns the size of the archive with this key in bytes, if it is finished.
    pub(super) fn size(&self, key: &str) -> Option<u64> {
        self.lock().get(key).and_then(CacheEntry::whole)
    }

    /// Returns a reader of the archive with this key, and a producer if the caller has to make it.
    pub(super) fn reader(&self, repository: RepositoryId, key: &str) -> (Reader, Option<Producer>) {
        let used = Instant::now();
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key)
            && let Some(waiting) = entry.join()
        {
            entry.used = used;
            metrics::counter!("ferrite_git_archive_cache_lookups_total", "result" => "hit").increment(1);
            return (self.reader_of(&entry.archive, waiting), None);
        }
        metrics::counter!("ferrite_git_archive_cache_lookups_total", "result" => "miss").increment(1);
        let archive = Arc::new(CachedArchive { file: self.0.disk.new_file(), progress: watch::Sender::default() });
        let waiting = Arc::new(());
        let readers = Arc::downgrade(&waiting);
        let entry = CacheEntry { repository, archive: Arc::clone(&archive), readers: readers.clone(), used };
        entries.insert(key.to_owned(), entry);
        let reader = self.reader_of(&archive, waiting);
        let (deadline, archives) = (used + PRODUCE_TIMEOUT, EvictOnDrop(self.clone()));
        (reader, Some(Producer { key: key.to_owned(), archive, readers, deadline, archives }))
    }

    fn reader_of(&self, archive: &Arc<CachedArchive>, waiting: Arc<()>) -> Reader {
        let (archive, progress) = (Arc::clone(archive), archive.progress.subscribe());
        Reader { archive, progress, _waiting: waiting, _evict: EvictOnDrop(self.clone()) }
    }

    /// Removes the archives of a repository that is gone. A reader that has one of them reads it to its end; the file is
    /// deleted then.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.lock().retain(|_, entry| entry.repository != repository);
    }

    /// Removes the least recently used archives without readers, until the rest fits.
    fn evict(&self) {
        let mut entries = self.lock();
        let unused = entries.iter().filter(|(_, entry)| entry.is_idle());
        let unused = unused.map(|(key, entry)| (entry.used, entry.archive.file.bytes(), key.clone()));
        for key in self.0.disk.keys_to_remove(entries.len(), unused) {
            entries.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CacheEntry>> {
        // Never poisoned: no code panics while it holds the lock.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    /// Returns the token of a new reader, which keeps the producer running; `None` if the archive has failed or its
    /// producer has lost all readers.
    fn join(&mut self) -> Option<Arc<()>> {
        let end = self.archive.progress.borrow().end.clone();
        match end {
            Some(Ok(())) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// Returns the size of the archive in bytes, if it is finished.
    fn whole(&self) -> Option<u64> {
        let progress = self.archive.progress.borrow();
        matches!(progress.end, Some(Ok(()))).then_some(progress.written)
    }

    /// Returns whether the archive has no producer and no reader.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.archive) == 1
    }
}

impl Producer {
    /// Checks that there are readers and that the deadline has not passed.
    ///
    /// # Errors
    ///
    /// `ClientGone` without readers, `TimedOut` after the deadline.
    pub(super) fn check(&self) -> Result<(), GitError> {
        if self.readers.strong_count() == 0 {
            return Err(GitError::ClientGone);
        }
        if Instant::now() >= self.deadline {
            return Err(GitError::TimedOut { what: "the archive" });
        }
        Ok(())
    }

    /// Waits until [`Self::check`] fails; returns its error. Removes other archives as this one grows.
    pub(super) async fn stopped(&self) -> GitError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            self.archives.0.evict();
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.archive.file.path()
    }

    pub(super) fn limits(&self) -> ArchiveLimits {
        self.archives.0.limits()
    }

    /// Publishes the number of written bytes to readers. A smaller number is ignored: a second run writes the same
    /// bytes again.
    pub(super) fn set_written(&self, bytes: u64) {
        let is_more = self.archive.progress.send_if_modified(|progress| {
            let is_more = bytes > progress.written;
            progress.written = progress.written.max(bytes);
            is_more
        });
        if is_more {
            self.archive.file.set_bytes(bytes);
        }
    }

    /// Records the result.
    pub(super) fn finish(&self, end: Result<(), GitError>) {
        if end.is_err() {
            let mut entries = self.archives.0.lock();
            if entries.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.archive, &self.archive)) {
                entries.remove(&self.key);
            }
        }
        self.archive.progress.send_modify(|progress| progress.end = Some(end.map_err(Arc::new)));
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let is_open = self.archive.progress.borrow().end.is_none();
        if is_open {
            self.finish(Err(GitError::Internal("an archive was left unfinished".to_owned())));
        }
    }
}

impl Reader {
    /// Waits for the first bytes, so that an early failure becomes an HTTP status. Returns the size if the archive is
    /// finished by then.
    pub(crate) async fn begun(&mut self) -> Result<Option<u64>, GitError> {
        self.reached(|progress| progress.written > 0 || progress.end.is_some()).await
    }

    /// Waits until the archive is finished; returns its size in bytes.
    pub(crate) async fn whole(&mut self) -> Result<u64, GitError> {
        let size = self.reached(|progress| progress.end.is_some()).await?;
        size.ok_or_else(|| GitError::Internal("an archive has ended without an end".to_owned()))
    }

    async fn reached(&mut self, wanted: impl FnMut(&Progress) -> bool) -> Result<Option<u64>, GitError> {
        let progress = self.progress.wait_for(wanted).await;
        let progress = progress.map_err(|_| GitError::Internal("an archive has lost its maker".to_owned()))?;
        match &progress.end {
            None => Ok(None),
            Some(Ok(())) => Ok(Some(progress.written)),
            Some(Err(error)) => Err(repeat_error(error)),
        }
    }

    /// Returns a stream of the bytes from `start` up to `end`, or to the last. The stream ends in an error if the
    /// producer fails.
    pub(crate) async fn bytes(
        self,
        start: u64,
        end: Option<u64>,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + use<>, GitError> {
        let opened = async {
            let mut file = tokio::fs::File::open(self.archive.file.path()).await?;
            file.seek(io::SeekFrom::Start(start)).await?;
            Ok(file)
        };
        let file = opened.await.map_err(GitError::io("opening an archive"))?;
        let state = (self, file, start, end.unwrap_or(u64::MAX));
        Ok(stream::try_unfold(state, |(mut reader, mut file, at, end)| async move {
            let Some(chunk) = reader.next_chunk(&mut file, at, end).await? else { return Ok(None) };
            let next = at + chunk.len() as u64;
            Ok(Some((chunk, (reader, file, next, end))))
        }))
    }

    /// Returns the next bytes; `None` at the end.
    async fn next_chunk(&mut self, file: &mut tokio::fs::File, at: u64, end: u64) -> io::Result<Option<Bytes>> {
        loop {
            if at >= end {
                return Ok(None);
            }
            let Progress { written, end: ended } = self.progress.borrow_and_update().clone();
            if let Some(Err(error)) = ended {
                return Err(io::Error::other(repeat_error(&error)));
            }
            let available = written.min(end).saturating_sub(at);
            if available > 0 {
                let size = usize::try_from(available).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                let mut chunk = BytesMut::zeroed(size);
                file.read_exact(&mut chunk).await?;
                return Ok(Some(chunk.freeze()));
            }
            if ended.is_some() {
                return Ok(None);
            }
            self.progress.changed().await.map_err(io::Error::other)?;
        }
    }
}

/// Copies the error of a producer, for each of its readers.
fn repeat_error(error: &GitError) -> GitError {
    match error {
        GitError::TooLarge { what, limit } => GitError::TooLarge { what, limit: *limit },
        GitError::Invalid(violation) => GitError::Invalid(violation.clone()),
        GitError::TimedOut { what } => GitError::TimedOut { what },
        GitError::Overloaded => GitError::Overloaded,
        GitError::RepositoryNotFound => GitError::RepositoryNotFound,
        // A reader that joined after the last one had left may retry.
        GitError::ClientGone => GitError::Overloaded,
        other => GitError::Internal(format!("making an archive: {other}")),
    }
}
