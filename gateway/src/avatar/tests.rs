use std::io::Cursor;
use std::time::{Duration, Instant};

use png::{BitDepth, ColorType};
use proptest::prelude::*;

use super::*;

fn png(width: u32, height: u32, color: ColorType, depth: BitDepth, data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    file
}

/// A PNG decompression bomb: a header with the size, and very many zeros.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let mut file = png(1, 1, ColorType::Rgba, BitDepth::Eight, &[0; 4]);
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc(&file[12..29]);
    file[29..33].copy_from_slice(&checksum.to_be_bytes());
    file
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// Decodes a PNG file into its side and RGBA pixels.
fn read(file: &[u8]) -> (usize, Vec<[u8; 4]>) {
    let picture = codec::decode(file).unwrap();
    assert_eq!(picture.width, picture.height);
    let square = scale::square(&picture, picture.width);
    (square.side, square.pixels.chunks_exact(4).map(|pixel| pixel.try_into().unwrap()).collect())
}

#[test]
fn a_picture_becomes_the_square_in_its_middle() {
    // Three pixels in a row: red, green, blue.
    let colors = [255, 0, 0, 0, 255, 0, 0, 0, 255];
    let file = prepare(&png(3, 1, ColorType::Rgb, BitDepth::Eight, &colors)).unwrap();
    assert_eq!(read(&file), (1, vec![[0, 255, 0, 255]]));
    let file = prepare(&png(1, 3, ColorType::Rgb, BitDepth::Eight, &colors)).unwrap();
    assert_eq!(read(&file), (1, vec![[0, 255, 0, 255]]));
}

#[test]
fn every_form_of_png_is_taken() {
    for (color, depth, data, expected) in [
        (ColorType::Grayscale, BitDepth::One, &[0x80][..], [255, 255, 255, 255]),
        (ColorType::Grayscale, BitDepth::Eight, &[7], [7, 7, 7, 255]),
        (ColorType::Grayscale, BitDepth::Sixteen, &[7, 200], [7, 7, 7, 255]),
        (ColorType::GrayscaleAlpha, BitDepth::Eight, &[7, 128], [7, 7, 7, 128]),
        (ColorType::Rgb, BitDepth::Sixteen, &[1, 0, 2, 0, 3, 0], [1, 2, 3, 255]),
        (ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 4], [1, 2, 3, 4]),
    ] {
        let file = prepare(&png(1, 1, color, depth, data)).unwrap();
        assert_eq!(read(&file), (1, vec![expected]), "{color:?} {depth:?}");
    }
}

#[test]
fn a_large_picture_is_scaled_down_and_its_metadata_dropped() {
    // Alternating black and white rows become grey.
    let lines: Vec<u8> = (0..1_024_usize * 1_030).map(|pixel| if pixel / 1_030 % 2 == 0 { 0 } else { 254 }).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 1_030, 1_024);
    encoder.set_color(ColorType::Grayscale);
    encoder.add_text_chunk("Comment".to_owned(), "my address".to_owned()).unwrap();
    encoder.write_header().unwrap().write_image_data(&lines).unwrap();
    let prepared = prepare(&file).unwrap();
    assert!(!prepared.windows(4).any(|bytes| bytes == b"tEXt"));
    let (side, pixels) = read(&prepared);
    assert_eq!(side, 512);
    assert!(pixels.iter().all(|pixel| *pixel == [127, 127, 127, 255]), "{:?}", &pixels[..3]);
}

#[test]
fn transparent_pixels_have_no_colour() {
    let pixels = [[255, 0, 0, 0], [0, 0, 255, 255]].concat();
    let mut lines = Vec::new();
    for _ in 0..1_024 {
        lines.extend(pixels.repeat(512));
    }
    let (side, pixels) = read(&prepare(&png(1_024, 1_024, ColorType::Rgba, BitDepth::Eight, &lines)).unwrap());
    assert_eq!((side, pixels[0]), (512, [0, 0, 255, 128]));
}

/// A JPEG file of 16 × 8 pixels: black on the left, white on the right. Its EXIF data turns it 90°
/// clockwise.
fn jpeg(with_exif: bool) -> Vec<u8> {
    let plain = include_bytes!("tests/half.jpg");
    if !with_exif {
        return plain.to_vec();
    }
    let exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&plain[..2], b"\xff\xe1", &length, exif, &plain[2..]].concat()
}

#[test]
fn a_photograph_is_turned_as_its_camera_was() {
    let is_white = |pixel: [u8; 4]| pixel[0] > 200;
    let (side, pixels) = read(&prepare(&jpeg(false)).unwrap());
    assert_eq!(side, 8);
    assert_eq!((is_white(pixels[0]), is_white(pixels[7]), is_white(pixels[56])), (false, true, false));
    let (_, pixels) = read(&prepare(&jpeg(true)).unwrap());
    assert_eq!((is_white(pixels[0]), is_white(pixels[7]), is_white(pixels[56])), (false, false, true));
}

#[test]
fn what_is_no_picture_or_too_large_is_refused() {
    for (file, expected) in [
        (&b""[..], PictureError::Format),
        (b"GIF89a\x01\0\x01\0", PictureError::Format),
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", PictureError::Format),
        (b"\x89PNG\r\n\x1a\n", PictureError::Broken),
        (b"\xff\xd8\xff", PictureError::Broken),
        (&bomb(4_097, 1), PictureError::TooManyPixels),
        (&bomb(1, 4_097), PictureError::TooManyPixels),
        (&bomb(4_096, 4_096), PictureError::Broken),
        (&vec![0; MAX_UPLOAD_BYTES + 1], PictureError::TooLong),
    ] {
        assert_eq!(prepare(file), Err(expected), "{:?}", &file[..file.len().min(20)]);
    }
    let file = png(2, 2, ColorType::Rgba, BitDepth::Eight, &[9; 16]);
    for length in 0..file.len() - 12 {
        assert!(prepare(&file[..length]).is_err(), "{length} bytes");
    }
    let mut large = jpeg(false);
    let frame = large.windows(2).position(|bytes| bytes == [0xff, 0xc0] || bytes == [0xff, 0xc2]).unwrap();
    large[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    assert_eq!(prepare(&large), Err(PictureError::TooManyPixels));
}

#[test]
fn few_parts_of_extended_metadata_are_taken() {
    let plain = jpeg(false);
    // An incomplete text: the decoder keeps its segments until the picture begins.
    let name = b"http://ns.adobe.com/xmp/extension/\0";
    let part = [&b"\xff\xe1\0\x4d"[..], name, &[0; 32], b"\0\0\0\x09\0\0\0\x01"].concat();
    let with_parts = |count| [&plain[..2], &part.repeat(count), &plain[2..]].concat();
    assert!(prepare(&with_parts(64)).is_ok());
    assert_eq!(prepare(&with_parts(65)), Err(PictureError::Broken));
}

fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kibibytes| kibibytes * 1024)
}

#[test]
fn a_picture_that_unpacks_to_gigabytes_is_refused_without_its_memory() {
    let before = peak_memory();
    let started = Instant::now();
    for file in [bomb(60_000, 60_000), bomb(u32::MAX >> 1, u32::MAX >> 1), bomb(1_000_000, 4_000)] {
        assert_eq!(prepare(&file), Err(PictureError::TooManyPixels));
    }
    // Metadata that would decompress to much more is not decompressed.
    let mut file = png(1, 1, ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 4]);
    let mut chunk = b"iCCPname\0\0".to_vec();
    chunk.extend(deflated(512 * 1024 * 1024));
    let length = u32::try_from(chunk.len() - 4).unwrap().to_be_bytes();
    file.splice(33..33, [&length[..], &chunk, &crc(&chunk).to_be_bytes()].concat());
    assert!(file.len() < MAX_UPLOAD_BYTES);
    assert_eq!(read(&prepare(&file).unwrap()), (1, vec![[1, 2, 3, 4]]));
    assert!(started.elapsed() < Duration::from_secs(20));
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 512 * 1024 * 1024, "{} MiB", (after - before) / 1024 / 1024);
    }
}

/// Deflates `bytes` zeros with the PNG encoder, the only encoder at hand.
fn deflated(bytes: usize) -> Vec<u8> {
    let side = 16_384;
    let mut file = Vec::new();
    let encoder = {
        let mut encoder = png::Encoder::new(&mut file, side, u32::try_from(bytes).unwrap() / side);
        encoder.set_color(ColorType::Grayscale);
        encoder
    };
    let mut writer = encoder.write_header().unwrap();
    let mut stream = writer.stream_writer().unwrap();
    let line = vec![0; side as usize];
    for _ in 0..bytes / side as usize {
        std::io::Write::write_all(&mut stream, &line).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let (mut at, mut data) = (8, Vec::new());
    while at < file.len() {
        let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        if &file[at + 4..at + 8] == b"IDAT" {
            data.extend_from_slice(&file[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    data
}

#[test]
fn of_an_animation_the_first_picture_is_kept() {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 1, 1);
    encoder.set_color(ColorType::Rgb);
    encoder.set_animated(2, 0).unwrap();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[1, 2, 3]).unwrap();
    writer.write_image_data(&[4, 5, 6]).unwrap();
    writer.finish().unwrap();
    let prepared = prepare(&file).unwrap();
    assert_eq!(read(&prepared), (1, vec![[1, 2, 3, 255]]));
    assert!(!prepared.windows(4).any(|bytes| bytes == b"acTL" || bytes == b"fdAT"));
}

#[test]
fn an_account_has_always_the_same_drawing_and_others_have_another_one() {
    let drawings: std::collections::HashSet<_> = (1..200).map(|id| Identicon::of(id).svg(64)).collect();
    assert!(drawings.len() > 195, "{}", drawings.len());
    assert_eq!(Identicon::of(7), Identicon::of(7));
    let cursor = Cursor::new(Identicon::of(7).png(100).unwrap());
    assert_eq!(png::Decoder::new(cursor).read_info().unwrap().info().size(), (100, 100));
    for side in [16, 17, 256, 512] {
        let (drawn, pixels) = read(&Identicon::of(7).png(side).unwrap());
        assert_eq!(drawn, side);
        for y in 0..side {
            assert!((0..side / 2 - side / 12).all(|x| pixels[y * side + x][3] == 255));
        }
        assert_eq!(pixels[0], [0xf0, 0xf0, 0xf0, 255], "the border");
    }
    assert!(Identicon::of(7).svg(64).starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"64\""));
}

proptest! {
    #[test]
    fn damaged_files_are_refused_or_read(place in 0..600_usize, byte in any::<u8>(), cut in 0..700_usize) {
        let noise: Vec<u8> = (0..8_u32 * 8 * 3).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        for file in [png(8, 8, ColorType::Rgb, BitDepth::Eight, &noise), jpeg(true)] {
            let mut file = file;
            if let Some(damaged) = file.get_mut(place) {
                *damaged = byte;
            }
            file.truncate(cut.max(3));
            if let Ok(prepared) = prepare(&file) {
                prop_assert!(read(&prepared).0 <= 512);
            }
        }
    }
}
