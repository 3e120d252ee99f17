//! Tells content that is compressed already, as most large files are, from samples of it.
//!
//! Not here: compression itself (`loose_objects`, and the writers of archives).

use std::io::{self, Write as _};

use flate2::{Compression, write::DeflateEncoder};

/// Bytes of each of three samples.
pub(crate) const SAMPLE_BYTES: usize = 16 << 10;
/// Size above which content is sampled, in bytes.
pub(crate) const MIN_SAMPLED_BYTES: usize = 8 * SAMPLE_BYTES;
/// Bytes that a sample has at most, compressed, if its content is worth the time.
const MAX_COMPRESSED_BYTES: usize = SAMPLE_BYTES - SAMPLE_BYTES / 32;

/// Compresses samples. Its tables are larger than most files, so one is kept for many of them.
#[derive(Debug)]
pub(crate) struct CompressionSampler(DeflateEncoder<Vec<u8>>);

impl Default for CompressionSampler {
    fn default() -> Self {
        Self(DeflateEncoder::new(Vec::new(), Compression::fast()))
    }
}

impl CompressionSampler {
    /// Returns whether content is to be compressed: it is small, or a sample at its beginning, in its middle or at its end gets noticeably
    /// smaller.
    ///
    /// # Errors
    /// Those of the encoder.
    pub(crate) fn is_compressible(&mut self, content: &[u8]) -> io::Result<bool> {
        if content.len() <= MIN_SAMPLED_BYTES {
            return Ok(true);
        }
        let last = content.len() - SAMPLE_BYTES;
        for start in [0, last / 2, last] {
            self.0.write_all(&content[start..start + SAMPLE_BYTES])?;
            if self.0.reset(Vec::new())?.len() < MAX_COMPRESSED_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
