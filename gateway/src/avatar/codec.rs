//! Decodes PNG and JPEG files and encodes PNG files. Checks the size in the header before decoding.

use std::io::Cursor;

use png::{BitDepth, ColorType, Encoder, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::orientation::Orientation;
use super::{MAX_UPLOAD_SIDE_PIXELS, PictureError};

const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG_SIGNATURE: &[u8] = b"\xff\xd8\xff";
/// Memory of the PNG decoder besides the pixels: lines and metadata chunks.
const PNG_MEMORY_BYTES: usize = 8 * 1024 * 1024;
/// Maximum scans of a progressive JPEG file; programs write about ten.
const MAX_JPEG_SCANS: usize = 32;
/// Prefix of a segment of extended XMP metadata, and how many a file can have. The decoder walks
/// all segments at every marker; real ones have nearly 64 KiB each.
const EXTENDED_XMP: &[u8] = b"http://ns.adobe.com/xmp/extension/\0";
const MAX_EXTENDED_XMP_PARTS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Bytes per pixel: grey, grey and alpha, RGB, or RGBA.
    pub(super) channels: usize,
    /// Rows from top to bottom, without padding.
    pub(super) pixels: Vec<u8>,
    pub(super) orientation: Orientation,
}

/// Decodes a file. Of an animation, only the first frame.
pub(super) fn decode(file: &[u8]) -> Result<Picture, PictureError> {
    let picture = match file {
        file if file.starts_with(PNG_SIGNATURE) => decode_png(file)?,
        file if file.starts_with(JPEG_SIGNATURE) => decode_jpeg(file)?,
        _ => return Err(PictureError::Format),
    };
    let is_whole = picture.pixels.len() == picture.width * picture.height * picture.channels;
    if is_whole { Ok(picture) } else { Err(PictureError::Broken) }
}

fn check_size(width: usize, height: usize) -> Result<(), PictureError> {
    match (width, height) {
        (0, _) | (_, 0) => Err(PictureError::Broken),
        (width, height) if width.max(height) > MAX_UPLOAD_SIDE_PIXELS => Err(PictureError::TooManyPixels),
        _ => Ok(()),
    }
}

fn decode_png(file: &[u8]) -> Result<Picture, PictureError> {
    let broken = |_| PictureError::Broken;
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), png::Limits { bytes: PNG_MEMORY_BYTES });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(broken)?;
    let (width, height) = (header.width as usize, header.height as usize);
    check_size(width, height)?;
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(broken)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or(PictureError::Broken)?];
    let frame = reader.next_frame(&mut pixels).map_err(broken)?;
    pixels.truncate(frame.buffer_size());
    let channels = frame.color_type.samples();
    let (width, height) = (frame.width as usize, frame.height as usize);
    Ok(Picture { width, height, channels, pixels, orientation: Orientation::default() })
}

fn decode_jpeg(file: &[u8]) -> Result<Picture, PictureError> {
    if memchr::memmem::find_iter(file, EXTENDED_XMP).count() > MAX_EXTENDED_XMP_PARTS {
        return Err(PictureError::Broken);
    }
    let options = DecoderOptions::new_safe()
        .set_max_width(MAX_UPLOAD_SIDE_PIXELS)
        .set_max_height(MAX_UPLOAD_SIDE_PIXELS)
        .jpeg_set_max_scans(MAX_JPEG_SCANS)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let (width, height) = jpeg_size(file).ok_or(PictureError::Broken)?;
    check_size(width, height)?;
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    let pixels = decoder.decode().map_err(|_| PictureError::Broken)?;
    let info = decoder.info().ok_or(PictureError::Broken)?;
    let orientation = decoder.exif().map(|exif| Orientation::of_exif(exif)).unwrap_or_default();
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    Ok(Picture { width, height, channels: 3, pixels, orientation })
}

fn jpeg_size(file: &[u8]) -> Option<(usize, usize)> {
    let mut at = 2;
    loop {
        let marker = *file.get(at + 1)?;
        match (file.get(at)?, marker) {
            (0xff, 0xff) => at += 1,
            // Start of a frame. The excluded markers between them start tables.
            (0xff, 0xc0..=0xcf) if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let size = file.get(at + 5..at + 9)?;
                let side = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
                return Some((side(&size[2..]), side(&size[..2])));
            }
            (0xff, _) => {
                let length = file.get(at + 2..at + 4)?;
                at += 2 + (usize::from(length[0]) << 8 | usize::from(length[1]));
            }
            _ => return None,
        }
    }
}

/// Encodes a square of RGBA pixels, without alpha if it is the same for all. `None` if the encoder
/// fails, which needs a wrong number of pixels.
pub(super) fn encode_rgba(side: usize, pixels: &[u8]) -> Option<Vec<u8>> {
    if pixels.chunks_exact(4).any(|pixel| pixel[3] != u8::MAX) {
        return encode(side, ColorType::Rgba, BitDepth::Eight, &[], pixels);
    }
    let opaque: Vec<u8> = pixels.chunks_exact(4).flat_map(|pixel| pixel[..3].iter().copied()).collect();
    encode(side, ColorType::Rgb, BitDepth::Eight, &[], &opaque)
}

/// Encodes a square of two colours, one bit per pixel.
pub(super) fn encode_two_colors(side: usize, colors: [[u8; 3]; 2], lines: &[u8]) -> Option<Vec<u8>> {
    encode(side, ColorType::Indexed, BitDepth::One, &colors.concat(), lines)
}

fn encode(side: usize, color: ColorType, depth: BitDepth, palette: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let side = u32::try_from(side).ok()?;
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, side, side);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if !palette.is_empty() {
        encoder.set_palette(palette.to_vec());
    }
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(data).ok()?;
    writer.finish().ok()?;
    Some(file)
}
