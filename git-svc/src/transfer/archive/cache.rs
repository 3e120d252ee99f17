//! Cache of archives: their progress, and how to read one while it is being made.

use std::{io, path::Path, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use ferrite_proto::id::RepositoryId;
use futures_util::{Stream, stream};
use git_store::types::error::GitError;
use git2::Oid;
use sha2::{Digest as _, Sha256};

use super::plan::ArchiveLimits;
use crate::{
    admission::limiter::ClientKey,
    transfer::{
        cache_file::CacheDisk,
        file_chunks::FileChunks,
        stream_cache::{Stop, StreamCache, StreamKey, StreamProducer, StreamReader, StreamState},
    },
};

/// Limit on one chunk for a reader.
const CHUNK_BYTES: usize = 128 << 10;
/// Time limit to make one archive, including the wait for a permit.
const PRODUCE_TIMEOUT: Duration = Duration::from_secs(150);
/// How often a producer checks its readers, its deadline and the size of the cache.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The archives of a store. Clones share their state.
#[derive(Clone)]
pub(crate) struct ArchiveCache {
    archives: StreamCache<Progress>,
    pub(super) limits: ArchiveLimits,
}

/// Progress of an archive, as seen by its readers.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    written: u64,
    end: Option<Result<(), Arc<GitError>>>,
}

/// Reader of a cached archive. A producer without readers stops.
pub(crate) type Reader = StreamReader<Progress>;

pub(super) type Producer = StreamProducer<Progress>;

impl StreamState for Progress {
    fn is_whole(&self) -> Option<bool> {
        self.end.as_ref().map(Result::is_ok)
    }

    fn abandon(&mut self) {
        self.end = Some(Err(Arc::new(GitError::Internal("an archive was left unfinished".to_owned()))));
    }
}

impl ArchiveCache {
    /// Opens the cache below `cache`, and deletes the archives of an earlier process. Blocking.
    pub(crate) fn open(cache: &Path, limits: ArchiveLimits, capacity: u64) -> Result<Self, GitError> {
        let gauge = metrics::gauge!("ferrite_git_archive_cache_bytes");
        let disk = CacheDisk::open(cache.join("archives"), capacity, gauge)?;
        Ok(Self { archives: StreamCache::new(disk), limits })
    }

    /// Returns the size of a complete archive in bytes.
    pub(super) fn size(&self, key: &str) -> Option<u64> {
        self.archives.size(digest(key))
    }

    /// Returns a reader of the archive with this key, and a producer if the caller has to make it.
    pub(super) fn reader(&self, repository: RepositoryId, key: &str) -> (Reader, Option<Producer>) {
        let (reader, producer) = self.archives.open(digest(key), repository, PRODUCE_TIMEOUT);
        let result = if producer.is_some() { "miss" } else { "hit" };
        metrics::counter!("ferrite_git_archive_cache_lookups_total", "result" => result).increment(1);
        (reader, producer)
    }

    /// Returns a reader of a file that is stored as a delta, and a producer if the caller has to
    /// build it. With an `owner`, it is shared only by requests of that client.
    pub(super) fn file_reader(
        &self,
        repository: RepositoryId,
        blob: Oid,
        owner: Option<&ClientKey>,
    ) -> (Reader, Option<Producer>) {
        let key = match owner {
            None => format!("file {repository} {blob}"),
            Some(owner) => format!("file {repository} {blob} of {owner:?}"),
        };
        self.archives.open(digest(&key), repository, PRODUCE_TIMEOUT)
    }

    /// Returns a reader of the text of a diff, and a producer, which may take `time`, if the caller
    /// has to make it.
    pub(super) fn diff_reader(
        &self,
        repository: RepositoryId,
        key: &str,
        time: Duration,
    ) -> (Reader, Option<Producer>) {
        self.archives.open(digest(key), repository, time)
    }

    /// Drops the archives of a deleted repository. Current readers read to the end, then the files
    /// are deleted.
    pub(crate) fn forget(&self, repository: RepositoryId) {
        self.archives.forget(repository);
    }
}

impl Producer {
    /// Fails with `ClientGone` without readers, and with `TimedOut` after the deadline.
    pub(super) fn check(&self) -> Result<(), GitError> {
        match self.stop() {
            None => Ok(()),
            Some(Stop::NoReader) => Err(GitError::ClientGone),
            Some(Stop::TimedOut) => Err(GitError::TimedOut { what: "the archive" }),
        }
    }

    /// Waits until [`Self::check`] fails, and returns its error. Evicts other archives as this one
    /// grows.
    pub(super) async fn stopped(&self) -> GitError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            self.cache().evict();
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Publishes the number of written bytes to readers. A smaller number is ignored, because a
    /// second run writes the same bytes again.
    pub(super) fn set_written(&self, bytes: u64) {
        let is_more = self.state().send_if_modified(|progress| {
            let is_more = bytes > progress.written;
            progress.written = progress.written.max(bytes);
            is_more
        });
        if is_more {
            self.set_bytes(bytes);
        }
    }

    pub(super) fn finish(&self, end: Result<(), GitError>) {
        self.end(|progress| progress.end = Some(end.map_err(Arc::new)));
    }
}

impl Reader {
    /// Waits for the first bytes, so that an early failure becomes an HTTP status. Returns the size
    /// if the archive is complete by then.
    pub(crate) async fn begun(&mut self) -> Result<Option<u64>, GitError> {
        self.reached(|progress| progress.written > 0 || progress.end.is_some()).await
    }

    /// Waits until the archive is complete. Returns its size in bytes.
    pub(crate) async fn whole(&mut self) -> Result<u64, GitError> {
        let size = self.reached(|progress| progress.end.is_some()).await?;
        size.ok_or_else(|| GitError::Internal("an archive ended without a result".to_owned()))
    }

    async fn reached(&mut self, wanted: impl FnMut(&Progress) -> bool) -> Result<Option<u64>, GitError> {
        let progress = self.state.wait_for(wanted).await;
        let progress = progress.map_err(|_| GitError::Internal("an archive lost its producer".to_owned()))?;
        match &progress.end {
            None => Ok(None),
            Some(Ok(())) => Ok(Some(progress.written)),
            Some(Err(error)) => Err(repeat_error(error)),
        }
    }

    /// Returns the first `count` bytes, or all if there are fewer.
    pub(crate) async fn first(&mut self, count: usize) -> Result<Bytes, GitError> {
        let file = tokio::fs::File::open(self.path()).await.map_err(GitError::io("opening an archive"))?;
        let (mut chunks, mut first) = (FileChunks::new(file.into_std().await), BytesMut::new());
        while let Some(chunk) = self
            .next_chunk(&mut chunks, first.len() as u64, count as u64)
            .await
            .map_err(GitError::io("reading an archive"))?
        {
            first.extend_from_slice(&chunk);
        }
        Ok(first.freeze())
    }

    /// Streams the bytes from `start` up to `end`, or to the last. The stream ends in an error if
    /// the producer fails.
    pub(crate) async fn bytes(
        self,
        start: u64,
        end: Option<u64>,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + use<>, GitError> {
        let file = tokio::fs::File::open(self.path()).await.map_err(GitError::io("opening an archive"))?;
        let chunks = FileChunks::new(file.into_std().await);
        let state = (self, chunks, start, end.unwrap_or(u64::MAX));
        Ok(stream::try_unfold(state, |(mut reader, mut chunks, at, end)| async move {
            let Some(chunk) = reader.next_chunk(&mut chunks, at, end).await? else { return Ok(None) };
            let next = at + chunk.len() as u64;
            Ok(Some((chunk, (reader, chunks, next, end))))
        }))
    }

    async fn next_chunk(&mut self, chunks: &mut FileChunks, at: u64, end: u64) -> io::Result<Option<Bytes>> {
        loop {
            if at >= end {
                return Ok(None);
            }
            let Progress { written, end: ended } = self.state.borrow_and_update().clone();
            if let Some(Err(error)) = ended {
                return Err(io::Error::other(repeat_error(&error)));
            }
            let available = written.min(end).saturating_sub(at);
            if available > 0 {
                let size = usize::try_from(available).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                return chunks.read(at, size).await.map(Some);
            }
            if ended.is_some() {
                return Ok(None);
            }
            self.state.changed().await.map_err(io::Error::other)?;
        }
    }
}

fn digest(key: &str) -> StreamKey {
    Sha256::digest(key).into()
}

/// Copies the error of a producer for each of its readers.
fn repeat_error(error: &GitError) -> GitError {
    match error {
        GitError::TooLarge { what, limit } => GitError::TooLarge { what, limit: *limit },
        GitError::Invalid(violation) => GitError::Invalid(violation.clone()),
        GitError::TimedOut { what } => GitError::TimedOut { what },
        // The exceeded share belongs to the first client that asked.
        GitError::Overloaded | GitError::ShareFull { .. } => GitError::Overloaded,
        GitError::RepositoryNotFound => GitError::RepositoryNotFound,
        GitError::StoreFull => GitError::StoreFull,
        GitError::NoCommonHistory => GitError::NoCommonHistory,
        // A reader that joined after the last one had left may retry.
        GitError::ClientGone => GitError::Overloaded,
        other => GitError::Internal(format!("creating an archive: {other}")),
    }
}
