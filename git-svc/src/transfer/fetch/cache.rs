//! Cache of packs: which packs are cached, their progress, and the limits of making one.
//!
//! While the files take more than `capacity` bytes, no pack is started. A pack that grows beyond a
//! quarter of the capacity gets no new readers and is deleted with its last one; a pack that grows
//! beyond the whole capacity is aborted. The keys of both are remembered, and later requests bypass
//! the cache.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use git_store::types::error::{GitError, says_full};
use moka::sync::Cache;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{hook_protocol::MAX_INPUT, request::Key};
use crate::transfer::{
    cache_file::CacheDisk,
    stream_cache::{Stop, StreamCache, StreamProducer, StreamReader, StreamState},
};

/// How long an unused pack is kept, and how soon a second request for a pack has to follow to make
/// it cacheable.
const RETENTION: Duration = Duration::from_secs(300);
/// How long the key of a pack that is too large is remembered.
const LARGE_RETENTION: Duration = Duration::from_secs(3600);
/// How long no pack is started after the disk was full.
const DISK_FULL_BACKOFF: Duration = Duration::from_secs(60);
/// Limit on remembered keys, for first requests and for large packs each.
const MAX_REMEMBERED_KEYS: u64 = 10_000;
/// Time limit to make one pack, including the wait for a permit.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How often a producer checks the size of its file, its readers and its deadline.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Limit on git's progress output kept per pack. Lines that end in a line feed may take twice as
/// much.
const MAX_LOG_BYTES: usize = 64 << 10;

/// The packs of a store. Clones share their state.
#[derive(Clone)]
pub(crate) struct PackCache(Arc<Inner>);

struct Inner {
    packs: StreamCache<State>,
    /// Keys of packs that were requested once.
    seen: Cache<Key, ()>,
    /// Keys of packs that are too large to cache.
    large: Cache<Key, ()>,
    paused_until: Mutex<Option<Instant>>,
    detached_permits: Arc<Semaphore>,
    /// Limits the memory of inputs, in KiB.
    inputs: Arc<Semaphore>,
}

/// Progress of a pack, as seen by its readers.
#[derive(Default)]
pub(super) struct State {
    /// Whether the process runs and the file exists.
    begun: bool,
    log: Vec<u8>,
    end: Option<Result<u64, ProduceError>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProduceError {
    /// The producer failed before its first byte, for a reason specific to its request, such as its
    /// wait for a permit. Another request may retry.
    Retryable(String),
    /// Not cacheable: each request makes its own pack.
    NotCacheable,
    /// The producer failed after its first byte.
    Failed(String),
}

pub(super) enum Lookup {
    /// The request has to make its own pack.
    Bypass,
    /// The pack is complete or being made.
    Hit(Reader),
    /// The pack is not cached. The caller makes it with the producer.
    Miss(Reader, Producer),
}

/// Reader of a cached pack. A producer without readers stops.
pub(super) type Reader = StreamReader<State>;

/// New progress text, and the size of the pack or its failure once it has ended.
pub(super) struct Progress {
    pub(super) text: Vec<u8>,
    pub(super) end: Option<Result<u64, ProduceError>>,
}

/// Makes a cached pack. If it is dropped before [`Producer::finish`], the pack has failed.
pub(super) struct Producer {
    cache: PackCache,
    key: Key,
    pack: StreamProducer<State>,
}

impl StreamState for State {
    fn is_whole(&self) -> Option<bool> {
        self.end.as_ref().map(Result::is_ok)
    }

    fn abandon(&mut self) {
        let error = if self.begun { ProduceError::Failed } else { ProduceError::Retryable };
        self.end = Some(Err(error("the pack is incomplete; try again".to_owned())));
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
            packs: StreamCache::new(disk),
            seen: memory(RETENTION),
            large: memory(LARGE_RETENTION),
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
        if self.0.packs.capacity() == 0 {
            return (Lookup::Bypass, "run");
        }
        match self.0.packs.open_if(key, repository, PRODUCE_TIMEOUT, || self.is_cacheable(key, is_clone)) {
            None => (Lookup::Bypass, "run"),
            Some((reader, None)) => {
                let result = if reader.state.borrow().end.is_some() { "hit" } else { "join" };
                (Lookup::Hit(reader), result)
            }
            Some((reader, Some(pack))) => (Lookup::Miss(reader, Producer { cache: self.clone(), key, pack }), "make"),
        }
    }

    /// Returns whether a pack that is not cached should be. Remembers the key for the second
    /// request.
    fn is_cacheable(&self, key: Key, is_clone: bool) -> bool {
        let is_paused = self.0.paused_until.lock().is_some_and(|until| Instant::now() < until);
        if is_paused || self.0.large.contains_key(&key) || self.used_bytes() > self.0.packs.capacity() {
            return false;
        }
        if is_clone || self.0.seen.contains_key(&key) {
            return true;
        }
        self.0.seen.insert(key, ());
        false
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.0.packs.used_bytes()
    }

    /// Limits packs that are made without a permit of the pack limiter, because their reader is
    /// slower than their producer.
    pub(super) fn detached_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.detached_permits)
    }

    /// Reserves memory for an input; `None` if the inputs of other requests leave too little.
    pub(super) fn reserve_input(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.0.inputs).try_acquire_many_owned(count).ok()
    }

    /// Drops the packs of a deleted repository. Current readers read to the end.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.0.packs.forget(repository);
    }

    /// Removes packs that were not requested within [`RETENTION`].
    pub(super) fn expire(&self) {
        self.0.packs.remove_unused(RETENTION);
    }
}

impl Producer {
    /// Returns the path of the file to write.
    pub(super) fn path(&self) -> &Path {
        self.pack.path()
    }

    /// Lets readers open the file.
    pub(super) fn begin(&self) {
        self.pack.state().send_modify(|state| state.begun = true);
    }

    /// Appends git's progress output to the log, as far as it fits.
    pub(super) fn append_log(&self, text: &[u8]) {
        // Lines that stay visible get more room than lines that are overwritten.
        let limit = if text.ends_with(b"\n") { 2 * MAX_LOG_BYTES } else { MAX_LOG_BYTES };
        self.pack.state().send_if_modified(|state| {
            let fits = state.log.len() + text.len() <= limit;
            if fits {
                state.log.extend_from_slice(text);
            }
            fits
        });
    }

    pub(super) fn log_says_full(&self) -> bool {
        says_full(&String::from_utf8_lossy(&self.pack.state().borrow().log))
    }

    /// Remembers that this pack is too large to cache, and removes its entry so that no new reader
    /// joins.
    pub(super) fn is_too_large(&self) {
        self.cache.0.large.insert(self.key, ());
        self.pack.unlist();
    }

    pub(super) fn is_large(&self, bytes: u64) -> bool {
        bytes > self.cache.0.packs.capacity() / 4
    }

    /// Reports that a write failed because the disk is full. Removes all unused packs, and starts
    /// no others for [`DISK_FULL_BACKOFF`].
    pub(super) fn disk_is_full(&self) {
        *self.cache.0.paused_until.lock() = Some(Instant::now() + DISK_FULL_BACKOFF);
        self.cache.0.packs.remove_unused(Duration::ZERO);
    }

    /// Waits until the pack has no reader.
    pub(super) async fn abandoned(&self) {
        while self.pack.stop() != Some(Stop::NoReader) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Watches the size of the file, the readers and the deadline. Returns the error that ends the
    /// process.
    pub(super) async fn watch(&self, file: &fs::File) -> ProduceError {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.pack.stop() {
                None => {}
                Some(Stop::NoReader) => {
                    return ProduceError::Failed("no client is waiting for the pack".to_owned());
                }
                Some(Stop::TimedOut) => return ProduceError::Failed("creating the pack took too long".to_owned()),
            }
            if let Err(failure) = self.update_size(file) {
                return failure;
            }
        }
    }

    /// Updates the size of the file in the cache and returns it. Fails if it exceeds the capacity.
    pub(super) fn update_size(&self, file: &fs::File) -> Result<u64, ProduceError> {
        let size = file.metadata().map_err(|error| ProduceError::Failed(error.to_string()))?.len();
        self.pack.set_bytes(size);
        if self.is_large(size) {
            self.is_too_large();
        }
        self.cache.0.packs.evict();
        if size > self.cache.0.packs.capacity() {
            return Err(ProduceError::Failed("the pack is larger than expected; try again".to_owned()));
        }
        Ok(size)
    }

    pub(super) fn finish(self, end: Result<u64, ProduceError>) {
        self.pack.end(|state| state.end = Some(end));
    }
}

impl Reader {
    /// Waits until the file exists and returns its path. Returns the error if the producer failed
    /// earlier.
    pub(super) async fn begun(&mut self) -> Result<&Path, ProduceError> {
        let state = self.state.wait_for(|state| state.begun || state.end.is_some()).await;
        // Never an error: the reader holds the stream, which holds the sender.
        let failure = state.ok().filter(|state| !state.begun).and_then(|state| state.end.clone()).and_then(Result::err);
        failure.map_or(Ok(self.path()), Err)
    }

    /// Waits for text in the log after its first `log_offset` bytes, or for the end, and advances
    /// the offset. If the pack ended before the first call, returns only the last state of each
    /// line.
    pub(super) async fn progress(&mut self, log_offset: &mut usize) -> Progress {
        let seen = *log_offset;
        let state = self.state.wait_for(|state| state.log.len() > seen || state.end.is_some()).await;
        // Never an error: the reader holds the stream, which holds the sender.
        let Ok(state) = state else { return Progress { text: Vec::new(), end: Some(Err(ProduceError::NotCacheable)) } };
        let text = state.log.get(seen..).unwrap_or_default();
        let text = if seen == 0 && state.end.is_some() { final_lines(text) } else { text.to_vec() };
        *log_offset = state.log.len();
        Progress { text, end: state.end.clone() }
    }
}

/// Returns the last state of each line: a carriage return overwrites the text before it.
fn final_lines(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let last = |line: &[u8]| line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
    lines.flat_map(last).collect()
}
