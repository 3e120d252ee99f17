//! The avatar of an account, stored as a small PNG file. The gateway converts uploads; this checks
//! that the file can be stored and shown.

use ferrite_proto::error::FieldViolation;
use sha2::{Digest, Sha256};

const FIELD: &str = "image";
/// Signature, then length and name of the first block.
const PNG_BEGIN: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
/// The beginning of the file, then width and height.
const HEADER_BYTES: usize = PNG_BEGIN.len() + 8;
const MAX_SIDE_PIXELS: u32 = 512;
/// A little more than 512 × 512 pixels of 4 bytes that do not compress.
const MAX_CONTENT_BYTES: usize = 1280 * 1024;

/// A PNG file of at most 512 × 512 pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Avatar(Vec<u8>);

impl Avatar {
    pub(crate) fn parse(content: Vec<u8>) -> Result<Self, FieldViolation> {
        if content.is_empty() {
            return Err(FieldViolation::new(FIELD, "required", "is required"));
        }
        if content.len() > MAX_CONTENT_BYTES {
            return Err(FieldViolation::new(FIELD, "too_long", "must be at most 1,280 KiB"));
        }
        let Some(header) = content.get(..HEADER_BYTES).filter(|header| header.starts_with(PNG_BEGIN)) else {
            return Err(FieldViolation::new(FIELD, "invalid", "must be a PNG file"));
        };
        let (width, height) = header[PNG_BEGIN.len()..].split_at(4);
        let is_side = |bytes: &[u8]| {
            let side = bytes.try_into().map_or(0, u32::from_be_bytes);
            (1..=MAX_SIDE_PIXELS).contains(&side)
        };
        if !is_side(width) || !is_side(height) {
            return Err(FieldViolation::new(FIELD, "too_many", "must be at most 512 × 512 pixels"));
        }
        Ok(Self(content))
    }

    /// Returns hexadecimal digits.
    pub(crate) fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&self.0))
    }

    pub(crate) fn into_content(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(width: u32, height: u32) -> Vec<u8> {
        [PNG_BEGIN, &width.to_be_bytes(), &height.to_be_bytes(), b"rest"].concat()
    }

    fn refusal(content: Vec<u8>) -> &'static str {
        Avatar::parse(content).unwrap_err().code
    }

    #[test]
    fn a_picture_is_a_small_png_file() {
        assert_eq!(Avatar::parse(file(512, 1)).unwrap().into_content(), file(512, 1));
        assert_eq!(Avatar::parse(file(1, 1)).unwrap().sha256().len(), 64);
        for (width, height) in [(513, 1), (1, 513), (0, 1), (1, 0), (u32::MAX, u32::MAX)] {
            assert_eq!(refusal(file(width, height)), "too_many", "{width} × {height}");
        }
        assert_eq!(refusal(Vec::new()), "required");
        for wrong in [&b"\xff\xd8\xff\xe0"[..], b"<svg/>", PNG_BEGIN, &file(1, 1)[..20]] {
            assert_eq!(refusal(wrong.to_vec()), "invalid");
        }
        let mut long = file(1, 1);
        long.resize(MAX_CONTENT_BYTES, 0);
        assert!(Avatar::parse(long.clone()).is_ok());
        long.push(0);
        assert_eq!(refusal(long), "too_long");
    }
}
