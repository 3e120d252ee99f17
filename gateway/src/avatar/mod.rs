//! Avatars: uploaded pictures, cropped and scaled down; and identicons, drawn from the id of an
//! account.
//!
//! An upload is decoded only if its header says that it is small enough. It is encoded again, which
//! drops metadata and further frames. All functions are pure and meant for a blocking thread.

mod codec;
mod identicon;
mod orientation;
mod scale;

use ferrite_proto::error::FieldViolation;

pub(crate) use self::identicon::Identicon;

const FIELD: &str = "image";
pub(crate) const MAX_UPLOAD_BYTES: usize = 1024 * 1024;
const MAX_UPLOAD_SIDE_PIXELS: usize = 4096;
const MAX_SIDE_PIXELS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PictureError {
    #[error("must be a PNG or JPEG picture")]
    Format,
    #[error("must be at most 4,096 × 4,096 pixels")]
    TooManyPixels,
    /// The file is damaged, or decoding it needs too much memory.
    #[error("cannot be decoded")]
    Broken,
    #[error("must be at most 1,024 KiB")]
    TooLong,
}

impl From<PictureError> for FieldViolation {
    fn from(error: PictureError) -> Self {
        let code = match error {
            PictureError::Format | PictureError::Broken => "invalid",
            PictureError::TooManyPixels => "too_many",
            PictureError::TooLong => "too_long",
        };
        Self::new(FIELD, code, error.to_string())
    }
}

/// Converts an upload to the picture to store: its square centre as PNG, at most 512 × 512 pixels.
pub(crate) fn prepare(file: &[u8]) -> Result<Vec<u8>, PictureError> {
    if file.len() > MAX_UPLOAD_BYTES {
        return Err(PictureError::TooLong);
    }
    let picture = codec::decode(file)?;
    let square = scale::square(&picture, MAX_SIDE_PIXELS);
    codec::encode_rgba(square.side, &square.pixels).ok_or(PictureError::Broken)
}

#[cfg(test)]
mod tests;
