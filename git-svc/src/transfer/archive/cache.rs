//! Cache of archive files: each is made once, read by all requests while it is being made and after, and deleted when
//! others need the space. Not here: making an archive (`produce`).

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
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
use crate::{disk::repositories::recreate_dir, types::error::GitError};

/// Maximum bytes of one chunk of a reader.
const CHUNK_BYTES: usize = 128 << 10;
/// Maximum time for making one archive, including the wait for a permit.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(150);
/// Maximum number of finished archives, whatever their size.
const MAX_FILES: usize = 4096;
/// Interval at which a producer checks its readers and its deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// All cached archives of a store. Clones share their state.
#[derive(Clone)]
pub(crate) struct ArchiveCache(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    limits: ArchiveLimits,
    /// Maximum bytes of all finished archives.
    capacity: u64,
    /// Number of lookups: names the files, and orders the entries by their last use.
    count: AtomicU64,
    entries: Mutex<HashMap<String, CacheEntry>>,
}

struct CacheEntry {
    repository: RepositoryId,
    file: Arc<CacheFile>,
    readers: Weak<()>,
    used: u64,
}

/// A cached archive file. Deleted when its last `Arc` is dropped.
struct CacheFile {
    path: PathBuf,
    progress: watch::Sender<Progress>,
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // The file is missing if its producer failed before it began.
        drop(fs::remove_file(&self.path));
    }
}

#[derive(Clone, Default)]
struct Progress {
    written: u64,
    end: Option<Result<(), Arc<GitError>>>,
}

/// Reader of a cached archive. A producer without readers stops.
pub(crate) struct Reader {
    file: Arc<CacheFile>,
    progress: watch::Receiver<Progress>,
    _waiting: Arc<()>,
}

/// Handle for making a cached archive. If it is dropped before [`Producer::finish`], the archive has failed.
pub(super) struct Producer {
    archives: ArchiveCache,
    key: String,
    file: Arc<CacheFile>,
    readers: Weak<()>,
    deadline: Instant,
}

impl ArchiveCache {
    /// Opens the cache below `cache`, and deletes the archives of an earlier process. Blocking.
    pub(crate) fn open(cache: &Path, limits: ArchiveLimits, capacity: u64) -> Result<Self, GitError> {
        let folder = cache.join("archives");
        recreate_dir(&folder)?;
        let (count, entries) = (AtomicU64::new(0), Mutex::default());
        Ok(Self(Arc::new(Inner { folder, limits, capacity, count, entries })))
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
        let used = self.0.count.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key)
            && let Some(waiting) = entry.join()
        {
            entry.used = used;
            metrics::counter!("ferrite_git_archive_cache_lookups_total", "result" => "hit").increment(1);
            return (Reader::new(&entry.file, waiting), None);
        }
        metrics::counter!("ferrite_git_archive_cache_lookups_total", "result" => "miss").increment(1);
        let path = self.0.folder.join(used.to_string());
        let file = Arc::new(CacheFile { path, progress: watch::Sender::default() });
        let waiting = Arc::new(());
        let readers = Arc::downgrade(&waiting);
        let entry = CacheEntry { repository, file: Arc::clone(&file), readers: readers.clone(), used };
        let replaced = entries.insert(key.to_owned(), entry);
        drop(entries);
        drop(replaced);
        let reader = Reader::new(&file, waiting);
        let deadline = Instant::now() + PRODUCE_TIMEOUT;
        let producer = Producer { archives: self.clone(), key: key.to_owned(), file, readers, deadline };
        (reader, Some(producer))
    }

    /// Removes the archives of a repository that is gone. A reader that has one of them reads it to its end; the file is deleted then.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        let removed: Vec<_> = self.lock().extract_if(|_, entry| entry.repository == repository).collect();
        // The files are deleted by this drop, not under the lock.
        drop(removed);
    }

    /// Removes the least recently used finished archives, until the rest fits.
    fn evict(&self) {
        let mut entries = self.lock();
        let mut finished: Vec<_> =
            entries.iter().filter_map(|(key, entry)| Some((entry.used, entry.whole()?, key.clone()))).collect();
        finished.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let (mut total, mut removed) = (0_u64, Vec::new());
        for (place, (_, size, key)) in finished.into_iter().enumerate() {
            total = total.saturating_add(size);
            if total > self.0.capacity || place >= MAX_FILES {
                removed.extend(entries.remove(&key));
            }
        }
        drop(entries);
        // The files are deleted by this drop, not under the lock.
        drop(removed);
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
        let end = self.file.progress.borrow().end.clone();
        match end {
            Some(Ok(())) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// Returns the size of the archive in bytes, if it is finished.
    fn whole(&self) -> Option<u64> {
        let progress = self.file.progress.borrow();
        matches!(progress.end, Some(Ok(()))).then_some(progress.written)
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

    /// Waits until [`Self::check`] fails; returns its error.
    pub(super) async fn stopped(&self) -> GitError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(super) fn limits(&self) -> ArchiveLimits {
        self.archives.limits()
    }

    /// Publishes the number of written bytes to readers. A smaller number is ignored: a second run writes the same
    /// bytes again.
    pub(super) fn set_written(&self, bytes: u64) {
        self.file.progress.send_if_modified(|progress| {
            let is_more = bytes > progress.written;
            progress.written = progress.written.max(bytes);
            is_more
        });
    }

    /// Records the result, and removes other archives if they take too much.
    pub(super) fn finish(&self, end: Result<(), GitError>) {
        self.end(end);
        self.archives.evict();
    }

    fn end(&self, end: Result<(), GitError>) {
        if end.is_err() {
            let mut entries = self.archives.lock();
            if entries.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.file, &self.file)) {
                entries.remove(&self.key);
            }
        }
        self.file.progress.send_modify(|progress| progress.end = Some(end.map_err(Arc::new)));
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let is_open = self.file.progress.borrow().end.is_none();
        if is_open {
            self.end(Err(GitError::Internal("an archive was left unfinished".to_owned())));
        }
    }
}

impl Reader {
    fn new(file: &Arc<CacheFile>, waiting: Arc<()>) -> Self {
        Self { file: Arc::clone(file), progress: file.progress.subscribe(), _waiting: waiting }
    }

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
            let mut file = tokio::fs::File::open(&self.file.path).await?;
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
