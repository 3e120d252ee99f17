//! Packs in files: which there are, who reads them, and which have to go. Not here: what makes or reads them.
//!
//! Files together take at most the room that is set, and what is still being read beyond it: nothing new is begun while there is no
//! room. One that grows beyond a quarter of the room gets no more readers and goes with the last it has; one that grows beyond all
//! of it is given up. Either is remembered, and left to whoever asks next.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use moka::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{hook_protocol::MAX_INPUT, request::Key};
use crate::{disk::repositories::recreate_dir, types::error::GitError};

/// How long a pack is kept after it was last asked for, and the time within which a second request makes one worth keeping.
const RETENTION: Duration = Duration::from_secs(300);
/// How long it is remembered that a pack is too large.
const LARGE_RETENTION: Duration = Duration::from_secs(3600);
/// How long nothing is made after the disk was full.
const DISK_FULL_BACKOFF: Duration = Duration::from_secs(60);
/// Requests that are remembered.
const MAX_REMEMBERED_KEYS: u64 = 10_000;
/// Finished packs that are kept, however small.
const MAX_FILES: usize = 4096;
/// How long one may take to make, waiting for its turn included.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How often a maker looks how large its file is and whether somebody reads it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What is kept of what git tells clients while it makes a pack.
const MAX_LOG_BYTES: usize = 64 << 10;

/// All packs of a store. Clones share everything.
#[derive(Clone)]
pub(crate) struct PackCache(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    /// Bytes that files may take.
    capacity: u64,
    /// For names of files.
    count: AtomicU64,
    disk: Arc<Disk>,
    /// What was asked for once.
    seen: Cache<Key, ()>,
    /// What is too large to keep.
    large: Cache<Key, ()>,
    entries: Mutex<HashMap<Key, CacheEntry>>,
    paused_until: Mutex<Option<Instant>>,
    detached_permits: Arc<Semaphore>,
    /// KiB of inputs in memory.
    inputs: Arc<Semaphore>,
}

/// What all files take together, and who removes them.
struct Disk {
    bytes: AtomicU64,
    remover: mpsc::Sender<PathBuf>,
}

struct CacheEntry {
    file: Arc<CacheFile>,
    readers: Weak<()>,
    repository: RepositoryId,
    used: Instant,
}

/// One file; it is removed with the last who knows it.
struct CacheFile {
    path: PathBuf,
    bytes: AtomicU64,
    disk: Arc<Disk>,
    log: Mutex<Vec<u8>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Default)]
struct State {
    /// There is a process, and a file.
    begun: bool,
    /// Bytes of the log.
    log_len: usize,
    end: Option<Result<u64, ProduceError>>,
}

/// Why there is no pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProduceError {
    /// It was not begun for a reason that need not be everybody's.
    Retryable(String),
    /// It is not to be kept: whoever wants it makes it.
    NotCacheable,
    /// It was begun and has no end.
    Failed(String),
}

/// What to do about a request.
pub(super) enum Lookup {
    /// The hook makes the pack.
    Bypass,
    /// The pack is there, or being made.
    Hit(Reader),
    /// The same, and whoever asked sees to it that it is made.
    Miss(Reader, Producer),
}

/// Reads a pack.
pub(super) struct Reader {
    file: Arc<CacheFile>,
    state: watch::Receiver<State>,
    _waiting: Arc<()>,
}

/// What a follower is told.
pub(super) struct Progress {
    pub(super) text: Vec<u8>,
    pub(super) end: Option<Result<u64, ProduceError>>,
}

/// Makes a pack. Dropped before its end, it has failed.
pub(super) struct Producer {
    packs: PackCache,
    key: Key,
    file: Arc<CacheFile>,
    readers: Weak<()>,
    deadline: Instant,
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        self.grow(0);
        // Without its thread the process is about to end, and the next one empties the folder.
        drop(self.disk.remover.send(std::mem::take(&mut self.path)));
    }
}

impl CacheFile {
    /// Sets its size.
    fn grow(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let all = &self.disk.bytes;
        let _ =
            all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| Some((all + bytes).saturating_sub(before)));
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        metrics::gauge!("ferrite_git_pack_cache_bytes").set(all.load(Ordering::Relaxed) as f64);
    }

    fn log(&self) -> MutexGuard<'_, Vec<u8>> {
        // Nothing panics while it is held.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> Option<Result<u64, ProduceError>> {
        self.state.borrow().end.clone()
    }
}

impl PackCache {
    /// Packs below `cache`, where those of an earlier process are removed. Blocking.
    pub(crate) fn open(cache: &Path, capacity: u64) -> Result<Self, GitError> {
        let folder = cache.join("packs");
        recreate_dir(&folder)?;
        let (remover, files) = mpsc::channel::<PathBuf>();
        let thread = std::thread::Builder::new().name("pack-remover".to_owned());
        // Large files take long to remove, and whoever drops the last handle has no time for that.
        let removing = thread.spawn(move || {
            for path in files {
                // It may never have been made.
                drop(fs::remove_file(path));
            }
        });
        removing.map_err(GitError::io("starting the thread that removes packs"))?;
        let memory = |time| Cache::builder().max_capacity(MAX_REMEMBERED_KEYS).time_to_live(time).build();
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self(Arc::new(Inner {
            folder,
            capacity,
            count: AtomicU64::new(0),
            disk: Arc::new(Disk { bytes: AtomicU64::new(0), remover }),
            seen: memory(RETENTION),
            large: memory(LARGE_RETENTION),
            entries: Mutex::default(),
            paused_until: Mutex::default(),
            detached_permits: Arc::new(Semaphore::new(4 * cores)),
            inputs: Arc::new(Semaphore::new(MAX_INPUT >> 10)),
        })))
    }

    /// What to do about a request with this key.
    pub(super) fn lookup(&self, key: Key, repository: RepositoryId, is_clone: bool) -> Lookup {
        let (plan, result) = self.decide(key, repository, is_clone);
        metrics::counter!("ferrite_git_pack_cache_total", "result" => result).increment(1);
        plan
    }

    fn decide(&self, key: Key, repository: RepositoryId, is_clone: bool) -> (Lookup, &'static str) {
        if self.0.capacity == 0 {
            return (Lookup::Bypass, "run");
        }
        self.evict();
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(&key)
            && let Some(waiting) = entry.join()
        {
            entry.used = Instant::now();
            let result = if entry.file.end().is_some() { "hit" } else { "join" };
            return (Lookup::Hit(Reader::new(&entry.file, waiting)), result);
        }
        if !self.is_cacheable(key, is_clone) {
            return (Lookup::Bypass, "run");
        }
        let path = self.0.folder.join(self.0.count.fetch_add(1, Ordering::Relaxed).to_string());
        let (bytes, disk) = (AtomicU64::new(0), Arc::clone(&self.0.disk));
        let file = Arc::new(CacheFile { path, bytes, disk, log: Mutex::default(), state: watch::Sender::default() });
        let waiting = Arc::new(());
        let readers = Arc::downgrade(&waiting);
        entries.insert(
            key,
            CacheEntry { file: Arc::clone(&file), readers: readers.clone(), repository, used: Instant::now() },
        );
        let reader = Reader::new(&file, waiting);
        let deadline = Instant::now() + PRODUCE_TIMEOUT;
        (Lookup::Miss(reader, Producer { packs: self.clone(), key, file, readers, deadline }), "make")
    }

    /// Whether a pack that is not here is worth a file.
    fn is_cacheable(&self, key: Key, is_clone: bool) -> bool {
        let is_paused = self.paused_until().is_some_and(|until| Instant::now() < until);
        if is_paused || self.0.large.contains_key(&key) || self.used_bytes() > self.0.capacity {
            return false;
        }
        if is_clone || self.0.seen.contains_key(&key) {
            return true;
        }
        self.0.seen.insert(key, ());
        false
    }

    /// A pack of this size is not kept.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        bytes > self.0.capacity / 4
    }

    /// Bytes of all files.
    pub(super) fn used_bytes(&self) -> u64 {
        self.0.disk.bytes.load(Ordering::Relaxed)
    }

    /// Turns to go on making a pack beside the gate, while its reader is slower than its maker.
    pub(super) fn detached_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.detached_permits)
    }

    /// Room in memory for an input, if there is any beside those that wait with theirs.
    pub(super) fn reserve_input(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.0.inputs).try_acquire_many_owned(count).ok()
    }

    /// Forgets the packs of a repository that is gone; whoever reads one reads to its end.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.remove_where(|_, entry| entry.repository == repository);
    }

    /// Throws away what was not asked for lately.
    pub(super) fn expire(&self) {
        self.remove_where(|_, entry| entry.is_idle() && entry.used.elapsed() >= RETENTION);
        self.evict();
    }

    /// Makes room on a full disk, and leaves it alone for a while.
    fn disk_is_full(&self) {
        *self.paused_until() = Some(Instant::now() + DISK_FULL_BACKOFF);
        self.remove_where(|_, entry| entry.is_idle());
    }

    /// Throws away what was not asked for for longest, until the rest has room.
    fn evict(&self) {
        let mut over = self.used_bytes().saturating_sub(self.0.capacity);
        let mut entries = self.lock();
        let mut many = entries.len().saturating_sub(MAX_FILES);
        if over == 0 && many == 0 {
            return;
        }
        let mut idle: Vec<_> = entries.iter().filter(|(_, entry)| entry.is_idle()).collect();
        idle.sort_unstable_by_key(|(_, entry)| entry.used);
        let mut removed = Vec::new();
        for (key, entry) in idle {
            if over == 0 && many == 0 {
                break;
            }
            over = over.saturating_sub(entry.file.bytes.load(Ordering::Relaxed));
            many = many.saturating_sub(1);
            removed.push(*key);
        }
        for key in removed {
            entries.remove(&key);
        }
    }

    fn remove_where(&self, is_useless: impl Fn(&Key, &CacheEntry) -> bool) {
        self.lock().retain(|key, entry| !is_useless(key, entry));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CacheEntry>> {
        // Nothing panics while it is held.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is held.
        self.0.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    /// What keeps the maker at work, if the pack can be had from this slot.
    fn join(&self) -> Option<Arc<()>> {
        match self.file.end() {
            Some(Ok(_)) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// Whether nobody makes or reads it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.file) == 1
    }
}

impl Producer {
    /// The file to write.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Lets followers read.
    pub(super) fn begin(&self) {
        self.file.state.send_modify(|state| state.begun = true);
    }

    /// Passes on what git says while it works.
    pub(super) fn append_log(&self, text: &[u8]) {
        let mut log = self.file.log();
        // Lines that stay are worth more than those that are overwritten.
        let limit = if text.ends_with(b"\n") { 2 * MAX_LOG_BYTES } else { MAX_LOG_BYTES };
        if log.len() + text.len() <= limit {
            log.extend_from_slice(text);
            let log_len = log.len();
            drop(log);
            self.file.state.send_modify(|state| state.log_len = log_len);
        }
    }

    /// Whether git said so.
    pub(super) fn log_contains(&self, text: &[u8]) -> bool {
        self.file.log().windows(text.len()).any(|part| part == text)
    }

    /// Remembers that this pack is not to be kept, and lets nobody else follow it.
    pub(super) fn is_too_large(&self) {
        self.packs.0.large.insert(self.key, ());
        self.unlist();
    }

    /// Whether a pack of this size is not kept.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        self.packs.is_large(bytes)
    }

    /// Says that a write found no room on the disk.
    pub(super) fn disk_is_full(&self) {
        self.packs.disk_is_full();
    }

    /// Returns when nobody waits for the pack any more.
    pub(super) async fn abandoned(&self) {
        while self.readers.strong_count() > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Watches the file grow; returns the reason when there is no use in going on.
    pub(super) async fn watch(&self, file: &fs::File) -> ProduceError {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.readers.strong_count() == 0 {
                return ProduceError::Failed("nobody waits for the pack any more".to_owned());
            }
            if Instant::now() >= self.deadline {
                return ProduceError::Failed("the pack took too long to make".to_owned());
            }
            if let Err(failure) = self.update_size(file) {
                return failure;
            }
        }
    }

    /// Takes the file's size; returns it.
    pub(super) fn update_size(&self, file: &fs::File) -> Result<u64, ProduceError> {
        let size = file.metadata().map_err(|error| ProduceError::Failed(error.to_string()))?.len();
        self.file.grow(size);
        if self.packs.is_large(size) {
            self.is_too_large();
        }
        self.packs.evict();
        if size > self.packs.0.capacity {
            return Err(ProduceError::Failed("the pack is larger than was expected; try again".to_owned()));
        }
        Ok(size)
    }

    /// Says how it ended.
    pub(super) fn finish(self, end: Result<u64, ProduceError>) {
        self.end(end);
    }

    fn end(&self, end: Result<u64, ProduceError>) {
        if end.is_err() {
            self.unlist();
        }
        self.file.state.send_modify(|state| state.end = Some(end));
    }

    /// Gives the slot up.
    fn unlist(&self) {
        let mut entries = self.packs.lock();
        if entries.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.file, &self.file)) {
            entries.remove(&self.key);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let (is_open, begun) = {
            let state = self.file.state.borrow();
            (state.end.is_none(), state.begun)
        };
        if is_open {
            let reason = "the pack was left unfinished; try again".to_owned();
            self.end(Err(if begun { ProduceError::Failed(reason) } else { ProduceError::Retryable(reason) }));
        }
    }
}

impl Reader {
    fn new(file: &Arc<CacheFile>, waiting: Arc<()>) -> Self {
        Self { file: Arc::clone(file), state: file.state.subscribe(), _waiting: waiting }
    }

    /// The file, once there is one; why there is none, if it was not begun.
    pub(super) async fn begun(&mut self) -> Result<&Path, ProduceError> {
        let state = self.state.wait_for(|state| state.begun || state.end.is_some()).await;
        // The sender lives as long as this.
        let failure = state.ok().filter(|state| !state.begun).and_then(|state| state.end.clone()).and_then(Result::err);
        failure.map_or(Ok(&self.file.path), Err)
    }

    /// What is new since the first `told` bytes of the log; waits for something. Of a pack that was there before, only the last
    /// state of each line is told.
    pub(super) async fn progress(&mut self, log_offset: &mut usize) -> Progress {
        let seen = *log_offset;
        let state = self.state.wait_for(|state| state.log_len > seen || state.end.is_some()).await;
        // The sender lives as long as this.
        let end = state.ok().and_then(|state| state.end.clone());
        let log = self.file.log();
        let text = log.get(seen..).unwrap_or_default();
        let text = if seen == 0 && end.is_some() { final_lines(text) } else { text.to_vec() };
        *log_offset = log.len();
        Progress { text, end }
    }
}

/// Each line as it was in the end: progress overwrites itself.
fn final_lines(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let last = |line: &[u8]| line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
    lines.flat_map(last).collect()
}
