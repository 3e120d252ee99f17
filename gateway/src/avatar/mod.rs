//! Pictures of accounts: those that clients send, made small squares; and those of accounts without one, drawn from the id.
//!
//! A picture that a client sends is decoded only if its header says that it is small enough, and written anew: what was hidden in the
//! file, and every further picture of an animation, is gone.
//!
//! Order of the files: `scale` → `codec` → `orientation`; `identicon` → `codec`. Pure functions: work for a blocking thread.
//!
//! Not here: requests, and the place where pictures are kept (repo-svc).

mod codec;
mod identicon;
mod orientation;
mod scale;

use ferrite_proto::error::FieldViolation;

pub(crate) use self::identicon::Identicon;

/// Name of the field of a picture.
const FIELD: &str = "image";
/// Largest file that a client may send.
pub(crate) const MAX_UPLOAD_BYTES: usize = 1024 * 1024;
/// Largest width and height of a picture that a client may send.
const MAX_UPLOAD_SIDE_PIXELS: usize = 4096;
/// Largest side of a picture that is kept.
const MAX_SIDE_PIXELS: usize = 512;

/// A picture that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PictureError {
    /// Neither PNG nor JPEG.
    #[error("must be a PNG or JPEG picture")]
    Format,
    /// Too many pixels.
    #[error("must have at most 4,096 × 4,096 pixels")]
    TooManyPixels,
    /// The file is damaged, or too much memory would be needed to read it.
    #[error("cannot be read as a picture")]
    Broken,
    /// The file is too long.
    #[error("must have at most 1,024 KiB")]
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

/// Makes the picture to keep of a file: the square in its middle, at most 512 × 512 pixels, as PNG.
///
/// # Errors
/// [`PictureError`].
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
