//! Detects content that is already compressed, as most large files are, by samples.

use std::io::{self, Write as _};

use flate2::{Compression, write::DeflateEncoder};

/// Size of each of the three samples.
pub const SAMPLE_BYTES: usize = 16 << 10;
/// Content above this many bytes is sampled.
pub const MIN_SAMPLED_BYTES: usize = 8 * SAMPLE_BYTES;
/// Largest compressed sample of content worth compressing.
const MAX_COMPRESSED_BYTES: usize = SAMPLE_BYTES - SAMPLE_BYTES / 32;

/// Compresses samples with one encoder, because its tables are larger than most files.
#[derive(Debug, Default)]
pub struct CompressionSampler(Option<DeflateEncoder<Vec<u8>>>);

impl CompressionSampler {
    /// Returns whether content is worth compressing: it is small, or a sample at its start, middle
    /// or end shrinks noticeably.
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
