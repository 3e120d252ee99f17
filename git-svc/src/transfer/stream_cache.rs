//! A cache of streams: files that are made once and read by all who ask for them, while they are being made and after, and deleted when
//! others need the space. The files take at most the capacity, and beyond it only those that are being made or read.
//! Not here: what the files contain, how they are made, and which requests may use them.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::cache_file::{CacheDisk, CacheFile};

/// Key of a stream: a digest of all that decides its bytes.
pub(super) type StreamKey = [u8; 32];

/// What readers of a stream are told while it is made.
pub(super) trait StreamState: Default {
    /// Returns whether the stream is whole; `None` while it is being made.
    fn is_whole(&self) -> Option<bool>;

    /// Records that the producer was dropped before the end.
    fn abandon(&mut self);
}

/// The streams of a store, by their keys. Clones share their state.
pub(super) struct StreamCache<S>(Arc<Inner<S>>);

struct Inner<S> {
    disk: Arc<CacheDisk>,
    entries: Mutex<HashMap<StreamKey, Entry<S>>>,
}

struct Entry<S> {
    repository: RepositoryId,
    stream: Arc<Stream<S>>,
    readers: Weak<()>,
    used: Instant,
}

/// A cached stream. Its file is deleted when the last `Arc` is dropped.
struct Stream<S> {
    file: CacheFile,
    state: watch::Sender<S>,
}

/// A reader, and the producer if the caller has to make the stream, because it is not cached.
pub(super) type Opened<S> = (StreamReader<S>, Option<StreamProducer<S>>);

/// Reader of a stream. A producer without readers stops.
pub(crate) struct StreamReader<S> {
    stream: Arc<Stream<S>>,
    pub(super) state: watch::Receiver<S>,
    _waiting: Arc<()>,
    _evict: EvictOnDrop<S>,
}

/// Handle for making a stream. If it is dropped before [`Self::end`], the stream has failed.
pub(super) struct StreamProducer<S: StreamState> {
    key: StreamKey,
    stream: Arc<Stream<S>>,
    readers: Weak<()>,
    deadline: Instant,
    cache: EvictOnDrop<S>,
}

/// Removes streams if they take too much, when a reader or producer is dropped. Declared after its handle on the stream, and so dropped
/// after it: the stream is unused by then.
struct EvictOnDrop<S>(StreamCache<S>);

/// Reasons for which a producer has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nobody waits for the stream any more.
    NoReader,
    /// The time for making it is over.
    TimedOut,
}

impl<S> Clone for StreamCache<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Drop for EvictOnDrop<S> {
    fn drop(&mut self) {
        self.0.evict();
    }
}

impl<S> StreamCache<S> {
    /// Returns an empty cache of the files in `disk`.
    pub(super) fn new(disk: Arc<CacheDisk>) -> Self {
        Self(Arc::new(Inner { disk, entries: Mutex::default() }))
    }

    /// Returns the maximum bytes of all files.
    pub(super) fn capacity(&self) -> u64 {
        self.0.disk.capacity
    }

    /// Returns the bytes of all files.
    pub(super) fn used_bytes(&self) -> u64 {
        self.0.disk.used_bytes()
    }

    /// Forgets the streams of a repository that is gone. Current readers read to the end; the files are deleted then.
    pub(super) fn forget(&self, repository: RepositoryId) {
        self.0.entries.lock().retain(|_, entry| entry.repository != repository);
    }

    /// Removes the streams without readers that were not asked for during `retention`.
    pub(super) fn remove_unused(&self, retention: Duration) {
        self.0.entries.lock().retain(|_, entry| !entry.is_idle() || entry.used.elapsed() < retention);
    }

    /// Removes the least recently used streams without readers, until the rest fits.
    pub(super) fn evict(&self) {
        let mut entries = self.0.entries.lock();
        let unused = entries.iter().filter(|(_, entry)| entry.is_idle());
        let unused = unused.map(|(key, entry)| (entry.used, entry.stream.file.bytes(), *key));
        for key in self.0.disk.keys_to_remove(entries.len(), unused) {
            entries.remove(&key);
        }
    }
}

impl<S: StreamState> StreamCache<S> {
    /// Opens the stream with this key, whose producer may take `time`.
    pub(super) fn open(&self, key: StreamKey, repository: RepositoryId, time: Duration) -> Opened<S> {
        let mut entries = self.0.entries.lock();
        let joined = self.join(&mut entries, key);
        joined.unwrap_or_else(|| self.insert(&mut entries, key, repository, time))
    }

    /// Returns the same; `None` if the stream is not cached and `may_make` says no.
    pub(super) fn open_if(
        &self,
        key: StreamKey,
        repository: RepositoryId,
        time: Duration,
        may_make: impl FnOnce() -> bool,
    ) -> Option<Opened<S>> {
        let mut entries = self.0.entries.lock();
        let joined = self.join(&mut entries, key);
        joined.or_else(|| may_make().then(|| self.insert(&mut entries, key, repository, time)))
    }

    fn join(&self, entries: &mut HashMap<StreamKey, Entry<S>>, key: StreamKey) -> Option<Opened<S>> {
        let entry = entries.get_mut(&key)?;
        let waiting = entry.join()?;
        entry.used = Instant::now();
        Some((self.reader(&entry.stream, waiting), None))
    }

    fn insert(
        &self,
        entries: &mut HashMap<StreamKey, Entry<S>>,
        key: StreamKey,
        repository: RepositoryId,
        time: Duration,
    ) -> Opened<S> {
        let stream = Arc::new(Stream { file: self.0.disk.new_file(), state: watch::Sender::new(S::default()) });
        let (waiting, used) = (Arc::new(()), Instant::now());
        let readers = Arc::downgrade(&waiting);
        let entry = Entry { repository, stream: Arc::clone(&stream), readers: readers.clone(), used };
        entries.insert(key, entry);
        let reader = self.reader(&stream, waiting);
        let (deadline, cache) = (used + time, EvictOnDrop(self.clone()));
        (reader, Some(StreamProducer { key, stream, readers, deadline, cache }))
    }

    fn reader(&self, stream: &Arc<Stream<S>>, waiting: Arc<()>) -> StreamReader<S> {
        let (stream, state) = (Arc::clone(stream), stream.state.subscribe());
        StreamReader { stream, state, _waiting: waiting, _evict: EvictOnDrop(self.clone()) }
    }

    /// Returns the size of the stream with this key in bytes, if it is whole.
    pub(super) fn size(&self, key: StreamKey) -> Option<u64> {
        let entries = self.0.entries.lock();
        let stream = &entries.get(&key)?.stream;
        let is_whole = stream.state.borrow().is_whole() == Some(true);
        is_whole.then(|| stream.file.bytes())
    }
}

impl<S: StreamState> Entry<S> {
    /// Returns the token of a new reader, which keeps the producer running; `None` if the stream has failed or its producer has lost all
    /// readers.
    fn join(&self) -> Option<Arc<()>> {
        let is_whole = self.stream.state.borrow().is_whole();
        match is_whole {
            Some(true) => Some(Arc::new(())),
            Some(false) => None,
            None => self.readers.upgrade(),
        }
    }
}

impl<S> Entry<S> {
    /// Returns whether the stream has no producer and no reader.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.stream) == 1
    }
}

impl<S> StreamReader<S> {
    /// Returns the path of the file, which exists once its producer has made it.
    pub(super) fn path(&self) -> &Path {
        self.stream.file.path()
    }
}

impl<S: StreamState> StreamProducer<S> {
    /// Returns the path of the file to make.
    pub(super) fn path(&self) -> &Path {
        self.stream.file.path()
    }

    /// Returns the cache.
    pub(super) fn cache(&self) -> &StreamCache<S> {
        &self.cache.0
    }

    /// Returns what readers are told.
    pub(super) fn state(&self) -> &watch::Sender<S> {
        &self.stream.state
    }

    /// Returns the reason for which the producer has to stop.
    pub(super) fn stop(&self) -> Option<Stop> {
        if self.readers.strong_count() == 0 {
            return Some(Stop::NoReader);
        }
        (Instant::now() >= self.deadline).then_some(Stop::TimedOut)
    }

    /// Sets the size of the file, in bytes.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.stream.file.set_bytes(bytes);
    }

    /// Tells readers the end. The entry of a stream that failed is removed.
    pub(super) fn end(&self, tell: impl FnOnce(&mut S)) {
        self.stream.state.send_modify(tell);
        if self.stream.state.borrow().is_whole() == Some(false) {
            self.unlist();
        }
    }

    /// Removes the entry, unless another producer has replaced it, so that no further reader joins.
    pub(super) fn unlist(&self) {
        let mut entries = self.cache.0.0.entries.lock();
        if entries.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.stream, &self.stream)) {
            entries.remove(&self.key);
        }
    }
}

impl<S: StreamState> Drop for StreamProducer<S> {
    fn drop(&mut self) {
        let is_open = self.stream.state.borrow().is_whole().is_none();
        if is_open {
            self.end(S::abandon);
        }
    }
}
