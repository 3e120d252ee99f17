//! EXIF orientation.

const ORIENTATION_TAG: u16 = 0x0112;
const ENTRY_BYTES: usize = 12;
const MAX_ENTRIES: usize = 256;

/// A number from 1 to 8: how to turn and mirror the stored picture for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Default for Orientation {
    fn default() -> Self {
        Self(1)
    }
}

impl Orientation {
    /// Reads the orientation from EXIF data. Unreadable data means no change.
    pub(super) fn of_exif(exif: &[u8]) -> Self {
        read(exif).unwrap_or_default()
    }

    /// Returns the stored pixel that is displayed at `x` and `y`; `last` is the largest coordinate.
    pub(super) fn source(self, x: usize, y: usize, last: usize) -> (usize, usize) {
        match self.0 {
            2 => (last - x, y),
            3 => (last - x, last - y),
            4 => (x, last - y),
            5 => (y, x),
            6 => (y, last - x),
            7 => (last - y, last - x),
            8 => (last - y, x),
            _ => (x, y),
        }
    }
}

fn read(exif: &[u8]) -> Option<Orientation> {
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let number = |at: usize, bytes: usize| {
        let bytes = exif.get(at..at.checked_add(bytes)?)?.iter();
        let fold = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        Some(if is_little { bytes.rev().fold(0, fold) } else { bytes.fold(0, fold) })
    };
    let directory = number(4, 4)?;
    let entries = number(directory, 2)?.min(MAX_ENTRIES);
    let begin = directory.checked_add(2)?;
    let entry = (0..entries)
        .map(|entry| begin + entry * ENTRY_BYTES)
        .find(|at| number(*at, 2) == Some(usize::from(ORIENTATION_TAG)))?;
    let value = u8::try_from(number(entry + 8, 2)?).ok()?;
    (1..=8).contains(&value).then_some(Orientation(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orientation_is_read_in_both_byte_orders() {
        let little = b"II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x01\0\0\0\0\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
        assert_eq!((Orientation::of_exif(little), Orientation::of_exif(big)), (Orientation(6), Orientation(8)));
        for wrong in [&b""[..], b"II*\0", b"II*\0\xff\xff\xff\xff", &little[..30], b"MM\0*\0\0\0\x08\xff\xff", b"JFIF"]
        {
            assert_eq!(Orientation::of_exif(wrong), Orientation::default(), "{wrong:?}");
        }
    }

    #[test]
    fn every_orientation_takes_each_pixel_once() {
        for number in 1..=8 {
            let mut seen: Vec<_> = (0..9).map(|pixel| Orientation(number).source(pixel % 3, pixel / 3, 2)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 9, "{number}");
        }
        // The stored upper left corner is displayed at the upper right, and at the lower left.
        assert_eq!((Orientation(6).source(2, 0, 2), Orientation(8).source(0, 2, 2)), ((0, 0), (0, 0)));
    }
}
