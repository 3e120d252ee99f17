//! The picture of an account without an avatar: a symmetric pattern of 5 × 5 fields, derived from
//! the hash of the id.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::codec::encode_two_colors;

const FIELDS: usize = 5;
/// Half fields per side, including a border of one.
const HALVES: usize = 2 * FIELDS + 2;
const BACKGROUND: [u8; 3] = [0xf0, 0xf0, 0xf0];
/// Saturation and lightness of the colour, in percent.
const SATURATION: u32 = 50;
const LIGHTNESS: u32 = 55;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identicon {
    /// One bit per field of the left and middle columns, row by row.
    fields: u16,
    color: [u8; 3],
}

impl Identicon {
    pub(crate) fn of(user_id: i64) -> Self {
        let hash = Sha256::digest(format!("avatar of {user_id}"));
        let hue = (u32::from(hash[2]) << 8 | u32::from(hash[3])) % 360;
        Self { fields: u16::from_be_bytes([hash[0], hash[1]]), color: color(hue) }
    }

    fn is_set(self, column: usize, line: usize) -> bool {
        let mirrored = column.min(FIELDS - 1 - column);
        self.fields >> (line * FIELDS.div_ceil(2) + mirrored) & 1 == 1
    }

    pub(crate) fn png(self, side: usize) -> Option<Vec<u8>> {
        let field =
            |at: usize| (at * HALVES / side).checked_sub(1).map(|half| half / 2).filter(|field| *field < FIELDS);
        let mut lines = vec![0; side * side.div_ceil(8)];
        for y in 0..side {
            for x in 0..side {
                if let (Some(column), Some(line)) = (field(x), field(y))
                    && self.is_set(column, line)
                {
                    lines[y * side.div_ceil(8) + x / 8] |= 0x80 >> (x % 8);
                }
            }
        }
        encode_two_colors(side, [BACKGROUND, self.color], &lines)
    }

    pub(crate) fn svg(self, side: usize) -> String {
        let mut path = String::new();
        for line in 0..FIELDS {
            for column in (0..FIELDS).filter(|column| self.is_set(*column, line)) {
                // Writing to a string cannot fail.
                let _ = write!(path, "M{column}.5 {line}.5h1v1h-1z");
            }
        }
        let hex = |color: [u8; 3]| hex::encode(color);
        let size = HALVES / 2;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{side}\" height=\"{side}\" viewBox=\"0 0 {size} {size}\">\
             <path fill=\"#{}\" d=\"M0 0h{size}v{size}H0z\"/><path fill=\"#{}\" d=\"{path}\"/></svg>\n",
            hex(BACKGROUND),
            hex(self.color),
        )
    }
}

/// Returns the RGB colour of a hue, in degrees.
fn color(hue: u32) -> [u8; 3] {
    // In hundredths of 255: the distance of the strongest and the weakest component from the
    // middle.
    let chroma = (100 - (2 * LIGHTNESS).abs_diff(100)) * SATURATION / 100;
    let weakest = LIGHTNESS - chroma / 2;
    let part = |shift: u32| {
        let degrees = (hue + shift) % 360;
        let share = match degrees {
            0..60 => degrees,
            60..180 => 60,
            180..240 => 240 - degrees,
            _ => 0,
        };
        u8::try_from((weakest * 60 + chroma * share) * 255 / 6000).unwrap_or(u8::MAX)
    };
    [part(120), part(0), part(240)]
}
