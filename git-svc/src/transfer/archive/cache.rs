//! Archives in files: each is made once, read by all who ask while it is made and after, and thrown away when others need the room.

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

/// Bytes that a reader takes at once.
const CHUNK_BYTES: usize = 128 << 10;
/// How long one may take to make, waiting for its turn included.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(150);
/// Finished archives that are kept, however small.
const MAX_FILES: usize = 4096;
/// How often a maker looks whether somebody still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// All archives of a store. Clones share everything.
#[derive(Clone)]
pub(crate) struct ArchiveCache(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    limits: ArchiveLimits,
    /// Bytes that finished archives may take.
    capacity: u64,
    /// Names of files, and the order of their use.
    count: AtomicU64,
    entries: Mutex<HashMap<String, CacheEntry>>,
}

struct CacheEntry {
    repository: RepositoryId,
    file: Arc<CacheFile>,
    readers: Weak<()>,
    used: u64,
}

/// One file; it is removed with the last who knows it.
struct CacheFile {
    path: PathBuf,
    progress: watch::Sender<Progress>,
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        // It may never have been made.
        drop(fs::remove_file(&self.path));
    }
}

#[derive(Clone, Default)]
struct Progress {
    written: u64,
    end: Option<Result<(), Arc<GitError>>>,
}

/// Reads an archive.
pub(crate) struct Reader {
    file: Arc<CacheFile>,
    progress: watch::Receiver<Progress>,
    _waiting: Arc<()>,
}

/// Makes an archive. Dropped before its end, it has failed.
pub(super) struct Producer {
    archives: ArchiveCache,
    key: String,
    file: Arc<CacheFile>,
    readers: Weak<()>,
    deadline: Instant,
}

impl ArchiveCache {
    /// Archives below `cache`, where those of an earlier process are removed. Blocking.
    pub(crate) fn open(cache: &Path, limits: ArchiveLimits, capacity: u64) -> Result<Self, GitError> {
        let folder = cache.join("archives");
        recreate_dir(&folder)?;
        let (count, entries) = (AtomicU64::new(0), Mutex::default());
        Ok(Self(Arc::new(Inner { folder, limits, capacity, count, entries })))
    }

    pub(super) fn limits(&self) -> ArchiveLimits {
        self.0.limits
    }

    /// The size of the archive with this key, if it is finished.
    pub(super) fn size(&self, key: &str) -> Option<u64> {
        self.lock().get(key).and_then(CacheEntry::whole)
    }

    /// The archive with this key, and the duty to make it, if nobody has or does.
    pub(super) fn reader(&self, repository: RepositoryId, key: &str) -> (Reader, Option<Producer>) {
        let used = self.0.count.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key)
            && let Some(waiting) = entry.join()
        {
            entry.used = used;
            return (Reader::new(&entry.file, waiting), None);
        }
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
        // Files are removed here, not under the lock.
        drop(removed);
    }

    /// Throws away what was not used for longest, until the rest has room.
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
        // Files are removed here, not under the lock.
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CacheEntry>> {
        // Nothing panics while it is held.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    /// What keeps the maker at work, if the archive can be had from this slot.
    fn join(&mut self) -> Option<Arc<()>> {
        let end = self.file.progress.borrow().end.clone();
        match end {
            Some(Ok(())) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// The size of a finished archive.
    fn whole(&self) -> Option<u64> {
        let progress = self.file.progress.borrow();
        matches!(progress.end, Some(Ok(()))).then_some(progress.written)
    }
}

impl Producer {
    /// Whether to go on.
    ///
    /// Errors: `ClientGone`, `TimedOut`.
    pub(super) fn check(&self) -> Result<(), GitError> {
        if self.readers.strong_count() == 0 {
            return Err(GitError::ClientGone);
        }
        if Instant::now() >= self.deadline {
            return Err(GitError::TimedOut { what: "the archive" });
        }
        Ok(())
    }

    /// Returns the reason when there is no use in going on.
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

    /// Tells readers how far they can read. Going back is no progress: a second try writes the same bytes.
    pub(super) fn set_written(&self, bytes: u64) {
        self.file.progress.send_if_modified(|progress| {
            let is_more = bytes > progress.written;
            progress.written = progress.written.max(bytes);
            is_more
        });
    }

    /// Says how it ended.
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

    /// Waits for the first bytes, so that an early failure is a status. Returns the size if it is known by then.
    pub(crate) async fn begun(&mut self) -> Result<Option<u64>, GitError> {
        self.reached(|progress| progress.written > 0 || progress.end.is_some()).await
    }

    /// Waits for the last byte; returns the size.
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

    /// The bytes from `start` to `end`, or to the last. Cut short by an error if the maker fails.
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

    /// The next bytes; `None` at the end.
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

/// The same failure, told to another reader.
fn repeat_error(error: &GitError) -> GitError {
    match error {
        GitError::TooLarge { what, limit } => GitError::TooLarge { what, limit: *limit },
        GitError::Invalid(violation) => GitError::Invalid(violation.clone()),
        GitError::TimedOut { what } => GitError::TimedOut { what },
        GitError::Overloaded => GitError::Overloaded,
        GitError::RepositoryNotFound => GitError::RepositoryNotFound,
        // A reader that came when the last one left may ask again.
        GitError::ClientGone => GitError::Overloaded,
        other => GitError::Internal(format!("making an archive: {other}")),
    }
}
