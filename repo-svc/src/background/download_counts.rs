use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;
use parking_lot::Mutex;

use crate::store::ReleaseTable;

/// Files whose downloads are kept in memory. Downloads of other files are not counted until the
/// next write.
const MAX_NOTED_FILES: usize = 10_000;
const WRITE_INTERVAL: Duration = Duration::from_secs(30);

/// Complete downloads by file id, kept in memory until a background task writes them, so that a
/// download writes nothing.
#[derive(Debug, Default)]
pub(crate) struct DownloadCounts(Mutex<BTreeMap<i64, i64>>);

impl DownloadCounts {
    pub(crate) fn note(&self, asset_id: i64, count: i64) {
        let mut counts = self.0.lock();
        if let Some(noted) = counts.get_mut(&asset_id) {
            *noted = noted.saturating_add(count);
        } else if counts.len() < MAX_NOTED_FILES {
            counts.insert(asset_id, count);
        }
    }

    /// Removes and returns the downloads by file id.
    fn take(&self) -> Vec<(i64, i64)> {
        let counts = std::mem::take(&mut *self.0.lock());
        counts.into_iter().collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DownloadWriter {
    counts: Arc<DownloadCounts>,
    releases: ReleaseTable,
}

impl DownloadWriter {
    pub(crate) fn new(counts: Arc<DownloadCounts>, releases: ReleaseTable) -> Self {
        Self { counts, releases }
    }

    /// Writes every 30 seconds until `life` stops. Call [`DownloadWriter::write`] once more when
    /// all requests are done.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("download counts", async move {
            while life2.pause(WRITE_INTERVAL).await {
                self.write().await;
            }
        });
    }

    /// If the write fails, the downloads are kept for the next call.
    pub(crate) async fn write(&self) {
        let counts = self.counts.take();
        let mut left = counts.as_slice();
        while !left.is_empty() {
            match self.releases.add_downloads(left).await {
                Ok(done) => left = &left[done..],
                Err(error) => {
                    tracing::warn!(%error, "cannot write download counts; will retry");
                    left.iter().for_each(|&(asset_id, count)| self.counts.note(asset_id, count));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_add_up_are_taken_once_and_are_bounded() {
        let counts = DownloadCounts::default();
        for (file, count) in [(2, 1), (1, 1), (2, 3)] {
            counts.note(file, count);
        }
        assert_eq!(counts.take(), [(1, 1), (2, 4)]);
        assert_eq!(counts.take(), []);
        (0..MAX_NOTED_FILES as i64 + 50).for_each(|file| counts.note(file, 1));
        assert_eq!(counts.take().len(), MAX_NOTED_FILES);
    }
}
