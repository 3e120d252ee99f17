//! Inflates gzip bodies in small steps, up to a limit, because a small body can expand to a very
//! large one.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use git_store::types::error::GitError;

/// Compressed bytes per step. Each expands to about 1,000 bytes at most.
const STEP: usize = 1024;

pub(super) struct Inflate {
    decoder: MultiGzDecoder<Sink>,
    limit: u64,
}

struct Sink {
    bytes: Vec<u8>,
    left: u64,
    is_full: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len() as u64;
        if size > self.left {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.left -= size;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflate {
    /// Creates a decoder of up to `limit` inflated bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { decoder: MultiGzDecoder::new(Sink { bytes: Vec::new(), left: limit, is_full: false }), limit }
    }

    /// Inflates the front of `bytes`; call it again with the rest. Fails with `Invalid` (field
    /// `body`) for invalid gzip, and with `TooLarge`.
    pub(super) fn step(&mut self, bytes: &mut bytes::Bytes) -> Result<Vec<u8>, GitError> {
        let part = bytes.split_to(bytes.len().min(STEP));
        let fed = self.decoder.write_all(&part).and_then(|()| self.decoder.flush());
        self.out(fed)
    }

    /// Ends the body and returns its last inflated bytes. Fails like [`Self::step`].
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, GitError> {
        let ended = self.decoder.try_finish();
        self.out(ended)
    }

    fn out(&mut self, outcome: io::Result<()>) -> Result<Vec<u8>, GitError> {
        let sink = self.decoder.get_mut();
        if sink.is_full {
            return Err(GitError::TooLarge { what: "the request", limit: self.limit });
        }
        outcome.map_err(|_| GitError::invalid("body", "invalid", "is not valid gzip"))?;
        Ok(std::mem::take(&mut sink.bytes))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn inflate(body: Vec<u8>, limit: u64) -> Result<Vec<u8>, GitError> {
        let (mut inflate, mut body, mut all) = (Inflate::new(limit), Bytes::from(body), Vec::new());
        while !body.is_empty() {
            let out = inflate.step(&mut body)?;
            assert!(out.len() <= 4 << 20, "{} bytes at once", out.len());
            all.extend(out);
        }
        all.extend(inflate.finish()?);
        Ok(all)
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_gzip_bomb_stops_at_the_limit() {
        let bomb = deflate(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100 << 10);
        assert!(matches!(inflate(bomb, 32 << 20), Err(GitError::TooLarge { limit: 33_554_432, .. })));
    }

    #[test]
    fn half_a_body_is_broken() {
        let body = deflate(b"0032want");
        for broken in [&body[..body.len() / 2], b"no gzip"] {
            assert!(matches!(inflate(broken.to_vec(), 100), Err(GitError::Invalid(_))));
        }
    }

    proptest! {
        #[test]
        fn bodies_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..5000), noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(inflate(deflate(&bytes), 5000).unwrap(), bytes);
            drop(inflate(noise, 5000));
        }
    }
}
