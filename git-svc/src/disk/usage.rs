//! Disk usage of repositories, measured from their folders. A folder of loose objects is read again only after its time
//! changed.
//!
//! Not here: when a repository needs maintenance (`maintenance`).

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ferrite_proto::id::RepositoryId;
use moka::sync::Cache;

use super::packs::{PackRole, packs_among};

/// Repositories whose folder readings are cached: about 10 KiB each when all 256 folders of loose objects exist.
const MAX_CACHED_REPOSITORIES: u64 = 1000;
/// A folder may change within this time without a new modification time, because the clock of files is coarse. Readings of
/// younger folders are not cached. Disks that keep whole seconds need the coarse value.
const FINE_MTIME_GRAIN: Duration = Duration::from_millis(100);
const COARSE_MTIME_GRAIN: Duration = Duration::from_secs(2);
/// Share of the objects that no bitmap covers from which on a new base is made: a quarter of the base, which keeps the cost of an object
/// constant, and so many at least that an index is worth a process.
const RECENT_SHARE: u64 = 4;
const MIN_RECENT_OBJECTS: u64 = 1000;

/// Disk usage of the objects of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    /// Bytes of all objects and their indexes. Temporary files of unfinished transfers do not count.
    pub(crate) bytes: u64,
    /// Number of loose objects.
    pub(crate) loose: u64,
    /// Packs that a bitmap covers.
    pub(crate) base: PackCount,
    /// Packs that came since. Those of pushes under way and cruft packs are left out.
    pub(crate) recent: PackCount,
    /// Bytes of cruft packs, which hold unreachable objects.
    pub(crate) cruft: u64,
    /// Time of the oldest object in the cruft packs, in microseconds since 1970; `None` unless [`DiskUsage::date_cruft`]
    /// found one.
    pub(crate) oldest_cruft_us: Option<i64>,
}

/// Number of packs of one role, and of their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackCount {
    pub(crate) packs: u64,
    pub(crate) objects: u64,
}

/// Cached folder readings of many repositories.
#[derive(Debug)]
pub(crate) struct DiskUsageCache(Cache<RepositoryId, Arc<Mutex<FanoutDirs>>>);

/// Readings of the 256 folders of loose objects, indexed by the first byte of the object ids.
type FanoutDirs = Vec<Option<FanoutDir>>;

/// The reading of one folder of loose objects.
#[derive(Clone, Copy, Debug)]
struct FanoutDir {
    changed: SystemTime,
    objects: u64,
    bytes: u64,
}

impl Default for DiskUsageCache {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_REPOSITORIES))
    }
}

impl DiskUsageCache {
    /// Drops what is known about a repository that is gone.
    pub(crate) fn forget(&self, id: RepositoryId) {
        self.0.invalidate(&id);
    }

    /// Measures the repository at `path`. Files that vanish meanwhile do not count. Blocking.
    pub(crate) fn of(&self, id: RepositoryId, path: &Path) -> DiskUsage {
        let objects = path.join("objects");
        let dirs = self.0.get_with(id, || Arc::new(Mutex::new(vec![None; 256])));
        // No code that can panic runs under this lock.
        let mut dirs = dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = DiskUsage::default();
        for entry in fs::read_dir(&objects).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let byte = name.to_str().filter(|name| name.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
            let Some(cached) = byte.and_then(|byte| dirs.get_mut(usize::from(byte))) else { continue };
            let dir = entry
                .metadata()
                .and_then(|data| data.modified())
                .map(|changed| read_if_changed(cached, &entry, changed));
            let Ok(dir) = dir else { continue };
            usage.loose += dir.objects;
            usage.bytes += dir.bytes;
        }
        drop(dirs);
        usage.bytes += list_dir(&objects.join("info")).map(|(_, bytes)| bytes).sum::<u64>();
        usage.add_packs(&objects.join("pack"));
        usage
    }
}

impl DiskUsage {
    fn add_packs(&mut self, folder: &Path) {
        let files: Vec<_> = list_dir(folder).filter(|(name, _)| !name.starts_with(['t', '.'])).collect();
        let cruft: Vec<_> = files.iter().filter_map(|(name, _)| name.strip_suffix(".mtimes")).collect();
        for (name, bytes) in &files {
            self.bytes += bytes;
            if name.rsplit_once('.').is_some_and(|(pack, _)| cruft.contains(&pack)) {
                self.cruft += bytes;
            }
        }
        for pack in packs_among(folder, &files) {
            let count = match pack.role {
                PackRole::Base => &mut self.base,
                PackRole::Recent => &mut self.recent,
                PackRole::Cruft | PackRole::Kept => continue,
            };
            count.packs += 1;
            count.objects += pack.objects;
        }
    }

    /// Number of objects that no bitmap covers.
    pub(crate) fn recent_objects(&self) -> u64 {
        self.recent.objects.saturating_add(self.loose)
    }

    /// Returns whether so many objects came since the base that it is to be made anew.
    pub(crate) fn has_outgrown_base(&self) -> bool {
        self.recent_objects() >= MIN_RECENT_OBJECTS.max(self.base.objects / RECENT_SHARE)
    }

    /// Sets `oldest_cruft_us` if the cruft packs take more than `percent` of all bytes; zero percent switches this off.
    /// Blocking.
    pub(crate) fn date_cruft(&mut self, repository: &Path, percent: u64) {
        if percent > 0 && self.cruft > self.bytes / 100 * percent {
            let folder = repository.join("objects/pack");
            let times = list_dir(&folder).filter(|(name, _)| name.ends_with(".mtimes"));
            self.oldest_cruft_us = times.filter_map(|(name, _)| oldest(&folder.join(name))).min();
        }
    }
}

/// Reads the oldest time, in microseconds since 1970, from a `.mtimes` file (gitformat-pack(5)): `MTME`, version 1, hash
/// kind 1 (SHA-1), a four-byte time in seconds per object, and two checksums.
fn oldest(path: &Path) -> Option<i64> {
    let bytes = fs::read(path).ok()?;
    let times = bytes.strip_prefix(b"MTME\0\0\0\x01\0\0\0\x01")?;
    let (times, _) = times.get(..times.len().checked_sub(40)?)?.as_chunks::<4>();
    times.iter().map(|time| i64::from(u32::from_be_bytes(*time)) * 1_000_000).min()
}

/// Lists names and sizes of the files in a folder; empty if the folder is missing.
fn list_dir(folder: &Path) -> impl Iterator<Item = (String, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, data.len()))
    })
}

/// Returns the reading of a folder of loose objects, from `cached` unless the folder changed.
fn read_if_changed(cached: &mut Option<FanoutDir>, entry: &fs::DirEntry, changed: SystemTime) -> FanoutDir {
    if let Some(dir) = cached.filter(|dir| dir.changed == changed) {
        return dir;
    }
    let mut dir = FanoutDir { changed, objects: 0, bytes: 0 };
    for (_, bytes) in list_dir(&entry.path()).filter(|(name, _)| name.len() == 38) {
        dir.objects += 1;
        dir.bytes += bytes;
    }
    let has_fraction = changed.duration_since(UNIX_EPOCH).is_ok_and(|time| time.subsec_nanos() != 0);
    let settled = if has_fraction { FINE_MTIME_GRAIN } else { COARSE_MTIME_GRAIN };
    let is_settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > settled);
    *cached = is_settled.then_some(dir);
    dir
}

/// Counts refs that have their own file; stops above `limit`. Blocking.
pub(crate) fn loose_refs(repository: &Path, limit: u64) -> u64 {
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
