//! Disk usage of repositories, measured from their folders and updated by writes.

use std::{fs, ops::AddAssign, path::Path, sync::Arc, time::Duration};

use ferrite_proto::id::RepositoryId;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::packs::{PackRole, packs_among};

const MAX_CACHED_REPOSITORIES: u64 = 1000;
/// How long writes keep a measurement up to date. A new one finds what writes do not report:
/// objects of rejected writes and leftovers of failed maintenance. Until then, writes during a
/// measurement may count twice.
const MEASURE_INTERVAL: Duration = Duration::from_secs(60);
/// A new base is due once the objects outside bitmaps are a quarter of it, so the cost per object
/// stays constant. There is also a minimum, so that an index is worth a process.
const RECENT_SHARE: u64 = 4;
const MIN_RECENT_OBJECTS: u64 = 1000;

/// Disk usage of the objects of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes of all objects and indexes, without temporary files of unfinished transfers.
    pub bytes: u64,
    /// Number of loose objects.
    pub loose: u64,
    /// Packs that a bitmap covers.
    pub base: PackCount,
    /// Packs added since, without cruft packs and those of pushes in progress.
    pub recent: PackCount,
    /// Bytes of cruft packs, which hold unreachable objects.
    pub cruft: u64,
    /// Time of the oldest object in the cruft packs, in microseconds since 1970, if
    /// [`DiskUsage::date_cruft`] found one.
    pub oldest_cruft_us: Option<i64>,
}

/// Packs of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackCount {
    /// Number of packs.
    pub packs: u64,
    /// Number of objects in them.
    pub objects: u64,
}

/// Cached usage of many repositories.
#[derive(Debug)]
pub struct DiskUsageCache(Cache<RepositoryId, Arc<Mutex<Measured>>>);

/// A measurement and what writes have added since.
#[derive(Debug)]
struct Measured {
    loose: LooseObjects,
    /// Everything but loose objects.
    packed: DiskUsage,
}

/// Loose objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LooseObjects {
    /// Number of objects.
    pub objects: u64,
    /// Size of their files.
    pub bytes: u64,
}

impl Default for DiskUsageCache {
    fn default() -> Self {
        Self::new(MEASURE_INTERVAL)
    }
}

/// All calls block, and measure a repository if the last measurement is too old. Ignores files that
/// vanish meanwhile.
impl DiskUsageCache {
    fn new(interval: Duration) -> Self {
        Self(Cache::builder().max_capacity(MAX_CACHED_REPOSITORIES).time_to_live(interval).build())
    }

    /// Forgets a repository that is gone or must be measured again.
    pub fn forget(&self, id: RepositoryId) {
        self.0.invalidate(&id);
    }

    /// Returns the usage of the repository at `path`.
    pub fn get(&self, id: RepositoryId, path: &Path) -> DiskUsage {
        self.with(id, path, |measured| measured.total())
    }

    /// Adds loose objects just written, unless the repository will be measured anyway.
    pub fn add_loose(&self, id: RepositoryId, written: LooseObjects) {
        if let Some(measured) = self.0.get(&id) {
            measured.lock().loose += written;
        }
    }

    /// Reads the pack folder again after packs were written.
    pub fn update_packs(&self, id: RepositoryId, path: &Path) {
        self.with(id, path, |measured| measured.packed = DiskUsage::without_loose(path));
    }

    fn with<T>(&self, id: RepositoryId, path: &Path, job: impl FnOnce(&mut Measured) -> T) -> T {
        let measured = self.0.get_with(id, || Arc::new(Mutex::new(Measured::read(path))));
        job(&mut measured.lock())
    }
}

impl Measured {
    fn read(path: &Path) -> Self {
        Self { loose: LooseObjects::measure(path), packed: DiskUsage::without_loose(path) }
    }

    fn total(&self) -> DiskUsage {
        let mut usage = self.packed.clone();
        usage.loose += self.loose.objects;
        usage.bytes += self.loose.bytes;
        usage
    }
}

impl LooseObjects {
    fn measure(repository: &Path) -> Self {
        let mut sum = Self::default();
        for folder in 0..=u8::MAX {
            let files = list_dir(&repository.join(format!("objects/{folder:02x}")));
            files.filter(|(name, _)| name.len() == 38).for_each(|(_, bytes)| sum += Self { objects: 1, bytes });
        }
        sum
    }
}

impl AddAssign for LooseObjects {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

impl DiskUsage {
    fn without_loose(repository: &Path) -> Self {
        let bytes = list_dir(&repository.join("objects/info")).map(|(_, bytes)| bytes).sum();
        let (mut usage, folder) = (Self { bytes, ..Self::default() }, repository.join("objects/pack"));
        let files: Vec<_> = list_dir(&folder).filter(|(name, _)| !name.starts_with(['t', '.'])).collect();
        let cruft: Vec<_> = files.iter().filter_map(|(name, _)| name.strip_suffix(".mtimes")).collect();
        for (name, bytes) in &files {
            usage.bytes += bytes;
            if name.rsplit_once('.').is_some_and(|(pack, _)| cruft.contains(&pack)) {
                usage.cruft += bytes;
            }
        }
        for pack in packs_among(&folder, &files) {
            let count = match pack.role {
                PackRole::Base => &mut usage.base,
                PackRole::Recent => &mut usage.recent,
                PackRole::Cruft | PackRole::Kept => continue,
            };
            count.packs += 1;
            count.objects += pack.objects;
        }
        usage
    }

    /// Returns the number of objects outside bitmaps.
    pub fn recent_objects(&self) -> u64 {
        self.recent.objects.saturating_add(self.loose)
    }

    /// Returns whether enough objects were added to build a new base.
    pub fn has_outgrown_base(&self) -> bool {
        self.recent_objects() >= MIN_RECENT_OBJECTS.max(self.base.objects / RECENT_SHARE)
    }

    /// Sets `oldest_cruft_us` if cruft packs exceed `percent` of all bytes; 0 disables it.
    /// Blocking.
    pub fn date_cruft(&mut self, repository: &Path, percent: u64) {
        if percent > 0 && self.cruft > self.bytes / 100 * percent {
            let folder = repository.join("objects/pack");
            let times = list_dir(&folder).filter(|(name, _)| name.ends_with(".mtimes"));
            self.oldest_cruft_us = times.filter_map(|(name, _)| oldest(&folder.join(name))).min();
        }
    }
}

/// Reads the oldest time, in microseconds since 1970, from a `.mtimes` file (gitformat-pack(5)):
/// `MTME`, version 1, hash kind 1 (SHA-1), a four-byte time in seconds per object, and two
/// checksums.
fn oldest(path: &Path) -> Option<i64> {
    let bytes = fs::read(path).ok()?;
    let times = bytes.strip_prefix(b"MTME\0\0\0\x01\0\0\0\x01")?;
    let (times, _) = times.get(..times.len().checked_sub(40)?)?.as_chunks::<4>();
    times.iter().map(|time| i64::from(u32::from_be_bytes(*time)) * 1_000_000).min()
}

/// Lists names and sizes of the files in a folder; empty if the folder is missing.
fn list_dir(folder: &Path) -> impl Iterator<Item = (String, u64)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, data.len()))
    })
}

/// Counts loose refs, stopping above `limit`. Blocking.
pub fn loose_refs(repository: &Path, limit: u64) -> u64 {
    let mut count = 0;
    let mut folders = vec![repository.join("refs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => count += 1,
                _ => {}
            }
            if count > limit {
                return count;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests;
