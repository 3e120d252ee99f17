//! Pixels as PNG files.

use png::{BitDepth, ColorType, Encoder};

/// Encodes a square of RGBA pixels, without alpha where it is the same for all. `None` if the encoder fails, which it does not for
/// pixels of the right number.
pub(super) fn rgba(side: usize, pixels: &[u8]) -> Option<Vec<u8>> {
    if pixels.chunks_exact(4).any(|pixel| pixel[3] != u8::MAX) {
        return write(side, ColorType::Rgba, BitDepth::Eight, &[], pixels);
    }
    let opaque: Vec<u8> = pixels.chunks_exact(4).flat_map(|pixel| pixel[..3].iter().copied()).collect();
    write(side, ColorType::Rgb, BitDepth::Eight, &[], &opaque)
}

/// Encodes a square of two colours; each line has a bit for each pixel.
pub(super) fn two_colors(side: usize, colors: [[u8; 3]; 2], lines: &[u8]) -> Option<Vec<u8>> {
    write(side, ColorType::Indexed, BitDepth::One, &colors.concat(), lines)
}

fn write(side: usize, color: ColorType, depth: BitDepth, palette: &[u8], data: &[u8]) -> Option<Vec<u8>> {
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
