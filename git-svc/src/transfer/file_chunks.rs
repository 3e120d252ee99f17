use std::{
    fs::File,
    io::{self, IoSliceMut},
    os::unix::fs::FileExt as _,
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

pub(super) struct FileChunks {
    file: Arc<File>,
    /// The last chunk. Its memory is reused if the client has taken it.
    last: Bytes,
}

impl FileChunks {
    pub(super) fn new(file: File) -> Self {
        Self { file: Arc::new(file), last: Bytes::new() }
    }

    /// Reads up to `max_bytes` bytes at `at`, at least one. Cached pages are read on this thread; a
    /// read that waits for the disk uses another thread.
    pub(super) async fn read(&mut self, at: u64, max_bytes: usize) -> io::Result<Bytes> {
        let mut chunk = std::mem::take(&mut self.last).try_into_mut().unwrap_or_else(|_| BytesMut::new());
        chunk.resize(max_bytes, 0);
        let count = match preadv2(&self.file, &mut [IoSliceMut::new(&mut chunk)], at, ReadWriteFlags::NOWAIT) {
            Ok(count) => count,
            // The read would wait for the disk, or the file system does not support `NOWAIT`.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                let file = Arc::clone(&self.file);
                let wait = move || file.read_at(&mut chunk, at).map(|count| (chunk, count));
                #[expect(clippy::disallowed_methods, reason = "at most one per response, as in `tokio::fs::File`")]
                let filled = tokio::task::spawn_blocking(wait).await?;
                let count;
                (chunk, count) = filled?;
                count
            }
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        chunk.truncate(count);
        self.last = chunk.freeze();
        Ok(self.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(content: &[u8]) -> (tempfile::TempDir, FileChunks) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let file = File::open(path).unwrap();
        (folder, FileChunks::new(file))
    }

    #[tokio::test]
    async fn a_chunk_has_the_bytes_of_its_place() {
        let (_folder, mut chunks) = chunks(b"abcdefgh");
        for (at, max_bytes, expected) in [(0, 3, &b"abc"[..]), (3, 4, b"defg"), (7, 4, b"h"), (1, 8, b"bcdefgh")] {
            assert_eq!(chunks.read(at, max_bytes).await.unwrap(), expected, "{at}");
        }
        assert_eq!(chunks.read(8, 4).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn memory_is_reused_once_the_chunk_is_dropped() {
        let (_folder, mut chunks) = chunks(b"abcdefgh");
        let first = chunks.read(0, 4).await.unwrap();
        let second = chunks.read(4, 4).await.unwrap();
        assert_ne!(first.as_ptr(), second.as_ptr());
        assert_eq!((&first[..], &second[..]), (&b"abcd"[..], &b"efgh"[..]));
        let place = second.as_ptr();
        drop(second);
        let third = chunks.read(0, 4).await.unwrap();
        assert_eq!((third.as_ptr(), &third[..]), (place, &b"abcd"[..]));
    }
}
