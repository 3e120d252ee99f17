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

use super::{request::Key, words::MAX_INPUT};
use crate::{error::GitError, layout::make_anew};

/// How long a pack is kept after it was last asked for, and the time within which a second request makes one worth keeping.
const KEPT: Duration = Duration::from_secs(300);
/// How long it is remembered that a pack is too large.
const LARGE: Duration = Duration::from_secs(3600);
/// How long nothing is made after the disk was full.
const PAUSE: Duration = Duration::from_secs(60);
/// Requests that are remembered.
const REMEMBERED: u64 = 10_000;
/// Finished packs that are kept, however small.
const MAX_FILES: usize = 4096;
/// How long one may take to make, waiting for its turn included.
const TIME: Duration = Duration::from_secs(3600);
/// How often a maker looks how large its file is and whether somebody reads it.
const TICK: Duration = Duration::from_millis(100);
/// What is kept of what git tells clients while it makes a pack.
const LOG: usize = 64 << 10;

/// All packs of a store. Clones share everything.
#[derive(Clone)]
pub(crate) struct Packs(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    /// Bytes that files may take.
    room: u64,
    /// For names of files.
    count: AtomicU64,
    disk: Arc<Disk>,
    /// What was asked for once.
    seen: Cache<Key, ()>,
    /// What is too large to keep.
    large: Cache<Key, ()>,
    slots: Mutex<HashMap<Key, Slot>>,
    paused_until: Mutex<Option<Instant>>,
    lingering: Arc<Semaphore>,
    /// KiB of inputs in memory.
    inputs: Arc<Semaphore>,
}

/// What all files take together, and who removes them.
struct Disk {
    bytes: AtomicU64,
    remover: mpsc::Sender<PathBuf>,
}

struct Slot {
    stored: Arc<Stored>,
    readers: Weak<()>,
    repository: RepositoryId,
    used: Instant,
}

/// One file; it is removed with the last who knows it.
struct Stored {
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
    said: usize,
    end: Option<Result<u64, Failure>>,
}

/// Why there is no pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not begun for a reason that need not be everybody's.
    Again(String),
    /// It is not to be kept: whoever wants it makes it.
    Run,
    /// It was begun and has no end.
    Broken(String),
}

/// What to do about a request.
pub(super) enum Plan {
    /// The hook makes the pack.
    Run,
    /// The pack is there, or being made.
    Follow(Follower),
    /// The same, and whoever asked sees to it that it is made.
    Make(Follower, Maker),
}

/// Reads a pack.
pub(super) struct Follower {
    stored: Arc<Stored>,
    state: watch::Receiver<State>,
    _waiting: Arc<()>,
}

/// What a follower is told.
pub(super) struct News {
    pub(super) text: Vec<u8>,
    pub(super) end: Option<Result<u64, Failure>>,
}

/// Makes a pack. Dropped before its end, it has failed.
pub(super) struct Maker {
    packs: Packs,
    key: Key,
    stored: Arc<Stored>,
    readers: Weak<()>,
    deadline: Instant,
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.grow(0);
        // Without its thread the process is about to end, and the next one empties the folder.
        drop(self.disk.remover.send(std::mem::take(&mut self.path)));
    }
}

impl Stored {
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

    fn end(&self) -> Option<Result<u64, Failure>> {
        self.state.borrow().end.clone()
    }
}

impl Packs {
    /// Packs below `cache`, where those of an earlier process are removed. Blocking.
    pub(crate) fn open(cache: &Path, room: u64) -> Result<Self, GitError> {
        let folder = cache.join("packs");
        make_anew(&folder)?;
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
        let memory = |time| Cache::builder().max_capacity(REMEMBERED).time_to_live(time).build();
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self(Arc::new(Inner {
            folder,
            room,
            count: AtomicU64::new(0),
            disk: Arc::new(Disk { bytes: AtomicU64::new(0), remover }),
            seen: memory(KEPT),
            large: memory(LARGE),
            slots: Mutex::default(),
            paused_until: Mutex::default(),
            lingering: Arc::new(Semaphore::new(4 * cores)),
            inputs: Arc::new(Semaphore::new(MAX_INPUT >> 10)),
        })))
    }

    /// What to do about a request with this key.
    pub(super) fn plan(&self, key: Key, repository: RepositoryId, is_clone: bool) -> Plan {
        let (plan, result) = self.decide(key, repository, is_clone);
        metrics::counter!("ferrite_git_pack_cache_total", "result" => result).increment(1);
        plan
    }

    fn decide(&self, key: Key, repository: RepositoryId, is_clone: bool) -> (Plan, &'static str) {
        if self.0.room == 0 {
            return (Plan::Run, "run");
        }
        self.make_room();
        let mut slots = self.lock();
        if let Some(slot) = slots.get_mut(&key)
            && let Some(waiting) = slot.join()
        {
            slot.used = Instant::now();
            let result = if slot.stored.end().is_some() { "hit" } else { "join" };
            return (Plan::Follow(Follower::new(&slot.stored, waiting)), result);
        }
        if !self.is_wanted(key, is_clone) {
            return (Plan::Run, "run");
        }
        let path = self.0.folder.join(self.0.count.fetch_add(1, Ordering::Relaxed).to_string());
        let (bytes, disk) = (AtomicU64::new(0), Arc::clone(&self.0.disk));
        let stored = Arc::new(Stored { path, bytes, disk, log: Mutex::default(), state: watch::Sender::default() });
        let waiting = Arc::new(());
        let readers = Arc::downgrade(&waiting);
        slots.insert(
            key,
            Slot { stored: Arc::clone(&stored), readers: readers.clone(), repository, used: Instant::now() },
        );
        let follower = Follower::new(&stored, waiting);
        let deadline = Instant::now() + TIME;
        (Plan::Make(follower, Maker { packs: self.clone(), key, stored, readers, deadline }), "make")
    }

    /// Whether a pack that is not here is worth a file.
    fn is_wanted(&self, key: Key, is_clone: bool) -> bool {
        let is_paused = self.paused_until().is_some_and(|until| Instant::now() < until);
        if is_paused || self.0.large.contains_key(&key) || self.taken() > self.0.room {
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
        bytes > self.0.room / 4
    }

    /// Bytes of all files.
    pub(super) fn taken(&self) -> u64 {
        self.0.disk.bytes.load(Ordering::Relaxed)
    }

    /// Turns to go on making a pack beside the gate, while its reader is slower than its maker.
    pub(super) fn lingering(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.lingering)
    }

    /// Room in memory for an input, if there is any beside those that wait with theirs.
    pub(super) fn room_for_input(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.0.inputs).try_acquire_many_owned(count).ok()
    }

    /// Forgets the packs of a repository that is gone; whoever reads one reads to its end.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.throw_away(|_, slot| slot.repository == repository);
    }

    /// Throws away what was not asked for lately.
    pub(super) fn expire(&self) {
        self.throw_away(|_, slot| slot.is_idle() && slot.used.elapsed() >= KEPT);
        self.make_room();
    }

    /// Makes room on a full disk, and leaves it alone for a while.
    fn disk_is_full(&self) {
        *self.paused_until() = Some(Instant::now() + PAUSE);
        self.throw_away(|_, slot| slot.is_idle());
    }

    /// Throws away what was not asked for for longest, until the rest has room.
    fn make_room(&self) {
        let mut over = self.taken().saturating_sub(self.0.room);
        let mut slots = self.lock();
        let mut many = slots.len().saturating_sub(MAX_FILES);
        if over == 0 && many == 0 {
            return;
        }
        let mut idle: Vec<_> = slots.iter().filter(|(_, slot)| slot.is_idle()).collect();
        idle.sort_unstable_by_key(|(_, slot)| slot.used);
        let mut gone = Vec::new();
        for (key, slot) in idle {
            if over == 0 && many == 0 {
                break;
            }
            over = over.saturating_sub(slot.stored.bytes.load(Ordering::Relaxed));
            many = many.saturating_sub(1);
            gone.push(*key);
        }
        for key in gone {
            slots.remove(&key);
        }
    }

    fn throw_away(&self, is_useless: impl Fn(&Key, &Slot) -> bool) {
        self.lock().retain(|key, slot| !is_useless(key, slot));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        // Nothing panics while it is held.
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics while it is held.
        self.0.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// What keeps the maker at work, if the pack can be had from this slot.
    fn join(&self) -> Option<Arc<()>> {
        match self.stored.end() {
            Some(Ok(_)) => Some(Arc::new(())),
            Some(Err(_)) => None,
            None => self.readers.upgrade(),
        }
    }

    /// Whether nobody makes or reads it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.stored) == 1
    }
}

impl Maker {
    /// The file to write.
    pub(super) fn path(&self) -> &Path {
        &self.stored.path
    }

    /// Lets followers read.
    pub(super) fn begin(&self) {
        self.stored.state.send_modify(|state| state.begun = true);
    }

    /// Passes on what git says while it works.
    pub(super) fn say(&self, text: &[u8]) {
        let mut log = self.stored.log();
        // Lines that stay are worth more than those that are overwritten.
        let limit = if text.ends_with(b"\n") { 2 * LOG } else { LOG };
        if log.len() + text.len() <= limit {
            log.extend_from_slice(text);
            let said = log.len();
            drop(log);
            self.stored.state.send_modify(|state| state.said = said);
        }
    }

    /// Whether git said so.
    pub(super) fn has_said(&self, text: &[u8]) -> bool {
        self.stored.log().windows(text.len()).any(|part| part == text)
    }

    /// Remembers that this pack is not to be kept, and lets nobody else follow it.
    pub(super) fn is_too_large(&self) {
        self.packs.0.large.insert(self.key, ());
        self.leave();
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
            tokio::time::sleep(TICK).await;
        }
    }

    /// Watches the file grow; returns the reason when there is no use in going on.
    pub(super) async fn watch(&self, file: &fs::File) -> Failure {
        loop {
            tokio::time::sleep(TICK).await;
            if self.readers.strong_count() == 0 {
                return Failure::Broken("nobody waits for the pack any more".to_owned());
            }
            if Instant::now() >= self.deadline {
                return Failure::Broken("the pack took too long to make".to_owned());
            }
            if let Err(failure) = self.measure(file) {
                return failure;
            }
        }
    }

    /// Takes the file's size; returns it.
    pub(super) fn measure(&self, file: &fs::File) -> Result<u64, Failure> {
        let size = file.metadata().map_err(|error| Failure::Broken(error.to_string()))?.len();
        self.stored.grow(size);
        if self.packs.is_large(size) {
            self.is_too_large();
        }
        self.packs.make_room();
        if size > self.packs.0.room {
            return Err(Failure::Broken("the pack is larger than was expected; try again".to_owned()));
        }
        Ok(size)
    }

    /// Says how it ended.
    pub(super) fn finish(self, end: Result<u64, Failure>) {
        self.end(end);
    }

    fn end(&self, end: Result<u64, Failure>) {
        if end.is_err() {
            self.leave();
        }
        self.stored.state.send_modify(|state| state.end = Some(end));
    }

    /// Gives the slot up.
    fn leave(&self) {
        let mut slots = self.packs.lock();
        if slots.get(&self.key).is_some_and(|slot| Arc::ptr_eq(&slot.stored, &self.stored)) {
            slots.remove(&self.key);
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let (is_open, begun) = {
            let state = self.stored.state.borrow();
            (state.end.is_none(), state.begun)
        };
        if is_open {
            let reason = "the pack was left unfinished; try again".to_owned();
            self.end(Err(if begun { Failure::Broken(reason) } else { Failure::Again(reason) }));
        }
    }
}

impl Follower {
    fn new(stored: &Arc<Stored>, waiting: Arc<()>) -> Self {
        Self { stored: Arc::clone(stored), state: stored.state.subscribe(), _waiting: waiting }
    }

    /// The file, once there is one; why there is none, if it was not begun.
    pub(super) async fn begun(&mut self) -> Result<&Path, Failure> {
        let state = self.state.wait_for(|state| state.begun || state.end.is_some()).await;
        // The sender lives as long as this.
        let failure = state.ok().filter(|state| !state.begun).and_then(|state| state.end.clone()).and_then(Result::err);
        failure.map_or(Ok(&self.stored.path), Err)
    }

    /// What is new since the first `told` bytes of the log; waits for something. Of a pack that was there before, only the last
    /// state of each line is told.
    pub(super) async fn news(&mut self, told: &mut usize) -> News {
        let seen = *told;
        let state = self.state.wait_for(|state| state.said > seen || state.end.is_some()).await;
        // The sender lives as long as this.
        let end = state.ok().and_then(|state| state.end.clone());
        let log = self.stored.log();
        let text = log.get(seen..).unwrap_or_default();
        let text = if seen == 0 && end.is_some() { settled(text) } else { text.to_vec() };
        *told = log.len();
        News { text, end }
    }
}

/// Each line as it was in the end: progress overwrites itself.
fn settled(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let last = |line: &[u8]| line.rsplit(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
    lines.flat_map(last).collect()
}
