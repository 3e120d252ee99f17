//! Files of a pack or archive cache: accounts for their bytes, chooses which to remove, and deletes
//! them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

use git_store::{disk::repositories::recreate_dir, types::error::GitError};
use metrics::Gauge;

/// Limit on the number of cached files, whatever their size. Unused files above it are removed.
const MAX_FILES: usize = 4096;

/// Directory of a cache, bytes of its files, and the thread that deletes them.
pub(super) struct CacheDisk {
    folder: PathBuf,
    /// Limit on the bytes of all files.
    pub(super) capacity: u64,
    count: AtomicU64,
    bytes: AtomicU64,
    gauge: Gauge,
    remover: mpsc::Sender<PathBuf>,
}

/// A cache file. Its producer creates it, and dropping deletes it.
pub(super) struct CacheFile {
    path: PathBuf,
    bytes: AtomicU64,
    disk: Arc<CacheDisk>,
}

impl CacheDisk {
    /// Creates the directory, deletes files of an earlier process, and starts the thread. `gauge`
    /// shows the bytes of all files. Blocking.
    pub(super) fn open(folder: PathBuf, capacity: u64, gauge: Gauge) -> Result<Arc<Self>, GitError> {
        recreate_dir(&folder)?;
        let (remover, files) = mpsc::channel::<PathBuf>();
        let thread = std::thread::Builder::new().name("cache-remover".to_owned());
        // Deleting a large file takes long, so the task that drops the last handle must not wait
        // for it.
        let removing = thread.spawn(move || {
            for path in files {
                // The file is missing if its producer failed before creating it.
                drop(fs::remove_file(path));
            }
        });
        removing.map_err(GitError::io("starting the thread that removes cached files"))?;
        let (count, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Arc::new(Self { folder, capacity, count, bytes, gauge, remover }))
    }

    /// Returns a handle to a new file, which is not created yet.
    pub(super) fn new_file(self: &Arc<Self>) -> CacheFile {
        let path = self.folder.join(self.count.fetch_add(1, Ordering::Relaxed).to_string());
        CacheFile { path, bytes: AtomicU64::new(0), disk: Arc::clone(self) }
    }

    /// Returns the bytes of all files, listed in the cache or not.
    pub(super) fn used_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the keys of the least recently used files to remove until the rest fits, as far as
    /// unused ones suffice. `listed` is the number of entries; `unused` yields the last use, bytes
    /// and key of each entry whose file has no other handle.
    pub(super) fn keys_to_remove<K>(&self, listed: usize, unused: impl Iterator<Item = (Instant, u64, K)>) -> Vec<K> {
        let mut excess_bytes = self.used_bytes().saturating_sub(self.capacity);
        let mut excess_files = listed.saturating_sub(MAX_FILES);
        if excess_bytes == 0 && excess_files == 0 {
            return Vec::new();
        }
        let mut unused: Vec<_> = unused.collect();
        unused.sort_unstable_by_key(|(used, ..)| *used);
        let mut keys = Vec::new();
        for (_, bytes, key) in unused {
            if excess_bytes == 0 && excess_files == 0 {
                break;
            }
            excess_bytes = excess_bytes.saturating_sub(bytes);
            excess_files = excess_files.saturating_sub(1);
            keys.push(key);
        }
        keys
    }
}

impl CacheFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the size of the file, and updates the total.
    pub(super) fn set_bytes(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let all = &self.disk.bytes;
        let _ =
            all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| Some((all + bytes).saturating_sub(before)));
        self.disk.gauge.set(self.disk.used_bytes() as f64);
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        self.set_bytes(0);
        // Fails only if the thread ended with the process. The next process empties the directory.
        drop(self.disk.remover.send(std::mem::take(&mut self.path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that passes deletions to the test instead of the thread.
    fn disk(folder: &Path, capacity: u64) -> (Arc<CacheDisk>, mpsc::Receiver<PathBuf>) {
        let (remover, files) = mpsc::channel();
        let (count, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let disk = CacheDisk { folder: folder.to_owned(), capacity, count, bytes, gauge: Gauge::noop(), remover };
        (Arc::new(disk), files)
    }

    #[test]
    fn a_file_is_counted_until_it_is_dropped_and_deleted_by_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, files) = disk(folder.path(), 100);
        let (one, two) = (disk.new_file(), disk.new_file());
        fs::write(one.path(), [0; 10]).unwrap();
        one.set_bytes(10);
        two.set_bytes(7);
        one.set_bytes(30);
        assert_eq!((disk.used_bytes(), one.bytes()), (37, 30));
        let path = one.path().to_owned();
        drop(one);
        assert_eq!(disk.used_bytes(), 7);
        assert!(path.exists(), "the task that drops the file does not delete it");
        assert_eq!(files.try_iter().collect::<Vec<_>>(), [path]);
    }

    #[test]
    fn the_least_recently_used_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _files) = disk(folder.path(), 100);
        let now = Instant::now();
        let at = |seconds| now + std::time::Duration::from_secs(seconds);
        let unused = || [(at(3), 40, "c"), (at(1), 40, "a"), (at(2), 40, "b")].into_iter();
        let file = disk.new_file();
        for (bytes, expected) in [(100, ""), (101, "a"), (141, "ab"), (999, "abc")] {
            file.set_bytes(bytes);
            assert_eq!(disk.keys_to_remove(3, unused()).concat(), expected, "{bytes}");
        }
        file.set_bytes(0);
        assert_eq!(disk.keys_to_remove(MAX_FILES + 2, unused()).concat(), "ab");
    }
}
