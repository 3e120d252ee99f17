//! A cache of files that are produced once. All requests for a file read it while it grows and
//! afterwards, and it is deleted when others need the space. The files may exceed the capacity only
//! while they are produced or read.

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

/// Digest of everything that determines the bytes of a stream.
pub(super) type StreamKey = [u8; 32];

/// Progress of a stream, as seen by its readers.
pub(super) trait StreamState: Default {
    /// Returns whether the stream is complete; `None` while it is being produced.
    fn is_whole(&self) -> Option<bool>;

    /// Records that the producer was dropped early.
    fn abandon(&mut self);
}

/// The streams of a store. Clones share their state.
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

/// A reader, and a producer if the stream is not cached and the caller has to produce it.
pub(super) type Opened<S> = (StreamReader<S>, Option<StreamProducer<S>>);

/// Reader of a stream. A producer without readers stops.
pub(crate) struct StreamReader<S> {
    stream: Arc<Stream<S>>,
    pub(super) state: watch::Receiver<S>,
    _waiting: Arc<()>,
    _evict: EvictOnDrop<S>,
}

/// Produces a stream. If it is dropped before [`Self::end`], the stream has failed.
pub(super) struct StreamProducer<S: StreamState> {
    key: StreamKey,
    stream: Arc<Stream<S>>,
    readers: Weak<()>,
    deadline: Instant,
    cache: EvictOnDrop<S>,
}

/// Evicts streams when a reader or producer is dropped. Must be declared after the stream handle:
/// it is then dropped later, when the stream is unused.
struct EvictOnDrop<S>(StreamCache<S>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    NoReader,
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
    /// Creates an empty cache of the files in `disk`.
    pub(super) fn new(disk: Arc<CacheDisk>) -> Self {
        Self(Arc::new(Inner { disk, entries: Mutex::default() }))
    }

    pub(super) fn capacity(&self) -> u64 {
        self.0.disk.capacity
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.0.disk.used_bytes()
    }

    /// Drops the streams of a deleted repository. Current readers read to the end, then the files
    /// are deleted.
    pub(super) fn forget(&self, repository: RepositoryId) {
        self.0.entries.lock().retain(|_, entry| entry.repository != repository);
    }

    /// Removes streams without readers that were not requested within `retention`.
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
    /// Opens the stream with this key. Its producer may take `time`.
    pub(super) fn open(&self, key: StreamKey, repository: RepositoryId, time: Duration) -> Opened<S> {
        let mut entries = self.0.entries.lock();
        let joined = self.join(&mut entries, key);
        joined.unwrap_or_else(|| self.insert(&mut entries, key, repository, time))
    }

    /// Like [`Self::open`]; `None` if the stream is not cached and `may_make` returns false.
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

    /// Returns the size of a complete stream in bytes.
    pub(super) fn size(&self, key: StreamKey) -> Option<u64> {
        let entries = self.0.entries.lock();
        let stream = &entries.get(&key)?.stream;
        let is_whole = stream.state.borrow().is_whole() == Some(true);
        is_whole.then(|| stream.file.bytes())
    }
}

impl<S: StreamState> Entry<S> {
    /// Returns the token of a new reader, which keeps the producer running; `None` if the stream
    /// has failed or its producer has lost all readers.
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
    /// Returns whether the stream has neither producer nor reader.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.stream) == 1
    }
}

impl<S> StreamReader<S> {
    /// Returns the path of the file, which exists once its producer has created it.
    pub(super) fn path(&self) -> &Path {
        self.stream.file.path()
    }
}

impl<S: StreamState> StreamProducer<S> {
    /// Returns the path of the file to create.
    pub(super) fn path(&self) -> &Path {
        self.stream.file.path()
    }

    pub(super) fn cache(&self) -> &StreamCache<S> {
        &self.cache.0
    }

    pub(super) fn state(&self) -> &watch::Sender<S> {
        &self.stream.state
    }

    /// Returns why the producer has to stop, if it has to.
    pub(super) fn stop(&self) -> Option<Stop> {
        if self.readers.strong_count() == 0 {
            return Some(Stop::NoReader);
        }
        (Instant::now() >= self.deadline).then_some(Stop::TimedOut)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.stream.file.set_bytes(bytes);
    }

    /// Publishes the end to readers. Removes the entry of a failed stream.
    pub(super) fn end(&self, tell: impl FnOnce(&mut S)) {
        self.stream.state.send_modify(tell);
        if self.stream.state.borrow().is_whole() == Some(false) {
            self.unlist();
        }
    }

    /// Removes the entry, unless another producer has replaced it, so that no new reader joins.
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
