//! Tells content that is compressed already, as most large files are, from samples of it.
//!
//! Not here: compression itself (`loose_objects`, and the writers of archives).

use std::io::{self, Write as _};

use flate2::{Compression, write::DeflateEncoder};

/// Bytes of each of three samples.
pub const SAMPLE_BYTES: usize = 16 << 10;
/// Size above which content is sampled, in bytes.
pub const MIN_SAMPLED_BYTES: usize = 8 * SAMPLE_BYTES;
/// Bytes that a sample has at most, compressed, if its content is worth the time.
const MAX_COMPRESSED_BYTES: usize = SAMPLE_BYTES - SAMPLE_BYTES / 32;

/// Compresses samples. The encoder's tables are larger than most files, so it is made for the first sample, and kept for all others.
#[derive(Debug, Default)]
pub struct CompressionSampler(Option<DeflateEncoder<Vec<u8>>>);

impl CompressionSampler {
    /// Returns whether content is to be compressed: it is small, or a sample at its beginning, in its middle or at its end gets noticeably
    /// smaller.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn is_compressible(&mut self, content: &[u8]) -> io::Result<bool> {
        if content.len() <= MIN_SAMPLED_BYTES {
            return Ok(true);
        }
        let encoder = self.0.get_or_insert_with(|| DeflateEncoder::new(Vec::new(), Compression::fast()));
        let last = content.len() - SAMPLE_BYTES;
        for start in [0, last / 2, last] {
            encoder.write_all(&content[start..start + SAMPLE_BYTES])?;
            if encoder.reset(Vec::new())?.len() < MAX_COMPRESSED_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
