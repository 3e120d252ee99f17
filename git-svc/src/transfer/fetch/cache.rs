//! Cache of pack files: lookup, readers, and eviction. Not here: the process that makes a pack, and the connections
//! that read it.
//!
//! The files take at most `capacity` bytes, and beyond that only those that are still being read or made; as long as
//! they take more, no pack is begun. A pack that grows beyond a quarter of the capacity gets no further readers and is
//! deleted with its last one; a pack that grows beyond the whole capacity is aborted. The keys of both are remembered,
//! and later requests bypass the cache.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use moka::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{hook_protocol::MAX_INPUT, request::Key};
use crate::{
    transfer::cache_file::{CacheDisk, CacheFile},
    types::error::{GitError, says_full},
};

/// Time that an unused pack is kept, and time within which the second request for a pack makes it cacheable.
const RETENTION: Duration = Duration::from_secs(300);
/// Time that the key of a pack that is too large is remembered.
const LARGE_RETENTION: Duration = Duration::from_secs(3600);
/// Time in which no pack is begun after the disk was full.
const DISK_FULL_BACKOFF: Duration = Duration::from_secs(60);
/// Maximum keys remembered, for first requests and for large packs each.
const MAX_REMEMBERED_KEYS: u64 = 10_000;
/// Maximum time for making one pack, including the wait for a permit.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Interval at which a producer checks the size of its file, its readers and its deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of git's progress output kept per pack; lines that end in a line feed may take twice as much.
const MAX_LOG_BYTES: usize = 64 << 10;

/// All cached packs of a store. Clones share their state.
#[derive(Clone)]
pub(crate) struct PackCache(Arc<Inner>);

struct Inner {
    disk: Arc<CacheDisk>,
    /// Keys of packs that were requested once.
    seen: Cache<Key, ()>,
    /// Keys of packs that are too large to cache.
    large: Cache<Key, ()>,
    entries: Mutex<HashMap<Key, CacheEntry>>,
    paused_until: Mutex<Option<Instant>>,
    detached_permits: Arc<Semaphore>,
    /// Semaphore of the KiB of inputs in memory.
    inputs: Arc<Semaphore>,
}

struct CacheEntry {
    pack: Arc<CachedPack>,
    readers: Weak<()>,
    repository: RepositoryId,
    used: Instant,
}

/// A cached pack. Its file is deleted when the last `Arc` is dropped.
struct CachedPack {
    file: CacheFile,
    log: Mutex<Vec<u8>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Default)]
struct State {
    /// True once the process runs and the file exists.
    begun: bool,
    /// Bytes of the log.
    log_len: usize,
    end: Option<Result<u64, ProduceError>>,
}

/// Reasons why there is no pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProduceError {
    /// The producer failed before its first byte, for a reason specific to its request (for example its wait for a
    /// permit). Another request may retry.
    Retryable(String),
    /// Not cacheable: each request makes its own pack.
    NotCacheable,
    /// The producer failed after it had begun.
    Failed(String),
}

/// Result of a lookup.
pub(super) enum Lookup {
    /// Bypass the cache: the request makes its own pack.
    Bypass,
    /// The pack is complete or being made.
    Hit(Reader),
    /// The pack is not cached, and the caller makes it with the producer.
    Miss(Reader, Producer),
}

/// Reader of a cached pack. A producer without readers stops.
pub(super) struct Reader {
    pack: Arc<CachedPack>,
    state: watch::Receiver<State>,
    _waiting: Arc<()>,
}

/// New progress text, and the size of the pack or its failure, once it has ended.
pub(super) struct Progress {
    pub(super) text: Vec<u8>,
    pub(super) end: Option<Result<u64, ProduceError>>,
}

/// Handle for making a cached pack. If it is dropped before [`Producer::finish`], the pack has failed.
pub(super) struct Producer {
    packs: PackCache,
    key: Key,
    pack: Arc<CachedPack>,
    readers: Weak<()>,
    deadline: Instant,
}

impl CachedPack {
    fn log(&self) -> MutexGuard<'_, Vec<u8>> {
        // Never poisoned: no code panics while it holds the lock.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> Option<Result<u64, ProduceError>> {
        self.state.borrow().end.clone()
    }
}

impl PackCache {
    /// Opens the cache below `cache`, and deletes the packs of an earlier process. Blocking.
    pub(crate) fn open(cache: &Path, capacity: u64) -> Result<Self, GitError> {
        let gauge = metrics::gauge!("ferrite_git_pack_cache_bytes");
        let disk = CacheDisk::open(cache.join("packs"), capacity, gauge)?;
        let memory = |time| Cache::builder().max_capacity(MAX_REMEMBERED_KEYS).time_to_live(time).build();
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self(Arc::new(Inner {
            disk,
            seen: memory(RETENTION),
            large: memory(LARGE_RETENTION),
            entries: Mutex::default(),
            paused_until: Mutex::default(),
            detached_permits: Arc::new(Semaphore::new(4 * cores)),
            inputs: Arc::new(Semaphore::new(MAX_INPUT >> 10)),
        })))
    }

    /// Looks up the pack with this key, and counts the result in the metrics.
    pub(super) fn lookup(&self, key: Key, repository: RepositoryId, is_clone: bool) -> Lookup {
        let (plan, result) = self.decide(key, repository, is_clone);
        metrics::counter!("ferrite_git_pack_cache_total", "result" => result).increment(1);
        plan
    }

    fn decide(&self, key: Key, repository: RepositoryId, is_clone: bool) -> (Lookup, &'static str) {
        if self.0.disk.capacity == 0 {
            return (Lookup::Bypass, "run");
        }
        self.evict();
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(&key)
            && let Some(waiting) = entry.join()
        {
            entry.used = Instant::now();
            let result = if entry.pack.end().is_some() { "hit" } else { "join" };
            return (Lookup::Hit(Reader::new(&entry.pack, waiting)), result);
        }
        if !self.is_cacheable(key, is_clone) {
            return (Lookup::Bypass, "run");
        }
        let file = self.0.disk.new_file();
        let pack = Arc::new(CachedPack { file, log: Mutex::default(), state: watch::Sender::default() });
        let waiting = Arc::new(());
        let readers = Arc::downgrade(&waiting);
        entries.insert(
            key,
            CacheEntry { pack: Arc::clone(&pack), readers: readers.clone(), repository, used: Instant::now() },
        );
        let reader = Reader::new(&pack, waiting);
        let deadline = Instant::now() + PRODUCE_TIMEOUT;
        (Lookup::Miss(reader, Producer { packs: self.clone(), key, pack, readers, deadline }), "make")
    }

    /// Returns whether a pack that is not cached gets a file. Remembers the key for the second request.
    fn is_cacheable(&self, key: Key, is_clone: bool) -> bool {
        let is_paused = self.paused_until().is_some_and(|until| Instant::now() < until);
        if is_paused || self.0.large.contains_key(&key) || self.used_bytes() > self.0.disk.capacity {
            return false;
        }
        if is_clone || self.0.seen.contains_key(&key) {
            return true;
        }
        self.0.seen.insert(key, ());
        false
    }

    /// Returns whether a pack of this size is too large to cache.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        bytes > self.0.disk.capacity / 4
    }

    /// Returns the bytes of all files.
    pub(super) fn used_bytes(&self) -> u64 {
        self.0.disk.used_bytes()
    }

    /// Returns the semaphore of packs that are made without a permit of the pack limiter, because their reader is
    /// slower than their producer.
    pub(super) fn detached_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.detached_permits)
    }

    /// Reserves memory for an input; `None` if the inputs of other requests leave too little.
    pub(super) fn reserve_input(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.0.inputs).try_acquire_many_owned(count).ok()
    }

    /// Forgets the packs of a deleted repository. Current readers read to the end.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.remove_where(|_, entry| entry.repository == repository);
    }

    /// Removes packs that were not requested for [`RETENTION`].
    pub(super) fn expire(&self) {
        self.remove_where(|_, entry| entry.is_idle() && entry.used.elapsed() >= RETENTION);
        self.evict();
    }

    /// Removes all unused packs, and begins no others for [`DISK_FULL_BACKOFF`].
    fn disk_is_full(&self) {
        *self.paused_until() = Some(Instant::now() + DISK_FULL_BACKOFF);
        self.remove_where(|_, entry| entry.is_idle());
    }

    /// Removes the least recently requested unused packs, until the rest fits.
    fn evict(&self) {
        let mut entries = self.lock();
        let unused = entries.iter().filter(|(_, entry)| entry.is_idle());
        let unused = unused.map(|(key, entry)| (entry.used, entry.pack.file.bytes(), *key));
        for key in self.0.disk.keys_to_remove(entries.len(), unused) {
            entries.remove(&key);
        }
    }

    fn remove_where(&self, is_useless: impl Fn(&Key, &CacheEntry) -> bool) {
        self.lock().retain(|key, entry| !is_useless(key, entry));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CacheEntry>> {
        // Never poisoned: no code panics while it holds the lock.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        // Never poisoned: no code panics while it holds the lock.
        self.0.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    /// Returns the token of a new reader, which keeps the producer running; `None` if the pack has failed or its
    /// producer has lost all readers.
    fn join(&self) -> Option<Arc<()>> {
        match self.pack.end() {
            Some(Ok(_)) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// Returns whether the pack has no producer and no reader.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.pack) == 1
    }
}

impl Producer {
    /// Returns the path of the file to write.
    pub(super) fn path(&self) -> &Path {
        self.pack.file.path()
    }

    /// Lets readers open the file.
    pub(super) fn begin(&self) {
        self.pack.state.send_modify(|state| state.begun = true);
    }

    /// Appends git's progress output to the log, as far as it fits.
    pub(super) fn append_log(&self, text: &[u8]) {
        let mut log = self.pack.log();
        // Lines that stay visible get more room than lines that are overwritten.
        let limit = if text.ends_with(b"\n") { 2 * MAX_LOG_BYTES } else { MAX_LOG_BYTES };
        if log.len() + text.len() <= limit {
            log.extend_from_slice(text);
            let log_len = log.len();
            drop(log);
            self.pack.state.send_modify(|state| state.log_len = log_len);
        }
    }

    /// Returns whether the log reports a full disk.
    pub(super) fn log_says_full(&self) -> bool {
        says_full(&String::from_utf8_lossy(&self.pack.log()))
    }

    /// Remembers that this pack is too large to cache, and removes its entry, so that no further reader joins.
    pub(super) fn is_too_large(&self) {
        self.packs.0.large.insert(self.key, ());
        self.unlist();
    }

    /// Returns whether a pack of this size is too large to cache.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        self.packs.is_large(bytes)
    }

    /// Reports that a write failed because the disk is full.
    pub(super) fn disk_is_full(&self) {
        self.packs.disk_is_full();
    }

    /// Waits until the pack has no reader.
    pub(super) async fn abandoned(&self) {
        while self.readers.strong_count() > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Watches the size of the file, the readers and the deadline; returns the error that ends the process.
    pub(super) async fn watch(&self, file: &fs::File) -> ProduceError {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.readers.strong_count() == 0 {
                return ProduceError::Failed("no reader waits for the pack any more".to_owned());
            }
            if Instant::now() >= self.deadline {
                return ProduceError::Failed("the pack took too long to make".to_owned());
            }
            if let Err(failure) = self.update_size(file) {
                return failure;
            }
        }
    }

    /// Updates the size of the file in the cache, and returns it. Fails if it exceeds the capacity.
    pub(super) fn update_size(&self, file: &fs::File) -> Result<u64, ProduceError> {
        let size = file.metadata().map_err(|error| ProduceError::Failed(error.to_string()))?.len();
        self.pack.file.set_bytes(size);
        if self.packs.is_large(size) {
            self.is_too_large();
        }
        self.packs.evict();
        if size > self.packs.0.disk.capacity {
            return Err(ProduceError::Failed("the pack is larger than was expected; try again".to_owned()));
        }
        Ok(size)
    }

    /// Records the result.
    pub(super) fn finish(self, end: Result<u64, ProduceError>) {
        self.end(end);
    }

    fn end(&self, end: Result<u64, ProduceError>) {
        if end.is_err() {
            self.unlist();
        }
        self.pack.state.send_modify(|state| state.end = Some(end));
    }

    /// Removes the entry, unless another producer has replaced it.
    fn unlist(&self) {
        let mut entries = self.packs.lock();
        if entries.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.pack, &self.pack)) {
            entries.remove(&self.key);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let (is_open, begun) = {
            let state = self.pack.state.borrow();
            (state.end.is_none(), state.begun)
        };
        if is_open {
            let reason = "the pack was left unfinished; try again".to_owned();
            self.end(Err(if begun { ProduceError::Failed(reason) } else { ProduceError::Retryable(reason) }));
        }
    }
}

impl Reader {
    fn new(pack: &Arc<CachedPack>, waiting: Arc<()>) -> Self {
        Self { pack: Arc::clone(pack), state: pack.state.subscribe(), _waiting: waiting }
    }

    /// Waits until the file exists, and returns its path; the error if the producer failed before that.
    pub(super) async fn begun(&mut self) -> Result<&Path, ProduceError> {
        let state = self.state.wait_for(|state| state.begun || state.end.is_some()).await;
        // Never an error: `self.pack` holds the sender.
        let failure = state.ok().filter(|state| !state.begun).and_then(|state| state.end.clone()).and_then(Result::err);
        failure.map_or(Ok(self.pack.file.path()), Err)
    }

    /// Waits for text in the log after its first `log_offset` bytes, or for the end, and advances the offset. Of a pack
    /// that had ended before the first call, only the last state of each line is returned.
    pub(super) async fn progress(&mut self, log_offset: &mut usize) -> Progress {
        let seen = *log_offset;
        let state = self.state.wait_for(|state| state.log_len > seen || state.end.is_some()).await;
        // Never an error: `self.pack` holds the sender.
        let end = state.ok().and_then(|state| state.end.clone());
        let log = self.pack.log();
        let text = log.get(seen..).unwrap_or_default();
        let text = if seen == 0 && end.is_some() { final_lines(text) } else { text.to_vec() };
        *log_offset = log.len();
        Progress { text, end }
    }
}

/// Returns the last state of each line: a carriage return overwrites the text before it.
fn final_lines(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let last = |line: &[u8]| line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
    lines.flat_map(last).collect()
}
