//! Crops a picture to its square centre and scales it down. Each pixel is the mean of those it
//! replaces.

use super::codec::Picture;

/// A square of RGBA pixels.
pub(super) struct Square {
    pub(super) side: usize,
    pub(super) pixels: Vec<u8>,
}

/// Sums over the pixels that are merged into one.
#[derive(Default)]
struct Mean {
    count: u64,
    alpha: u64,
    /// Weighted with alpha: transparent pixels have no colour.
    colors: [u64; 3],
}

impl Mean {
    fn add(&mut self, pixel: &[u8]) {
        let (colors, alpha) = match *pixel {
            [grey] => ([grey; 3], u8::MAX),
            [grey, alpha] => ([grey; 3], alpha),
            [red, green, blue] => ([red, green, blue], u8::MAX),
            [red, green, blue, alpha, ..] => ([red, green, blue], alpha),
            [] => return,
        };
        self.count += 1;
        self.alpha += u64::from(alpha);
        for (sum, color) in self.colors.iter_mut().zip(colors) {
            *sum += u64::from(color) * u64::from(alpha);
        }
    }

    fn pixel(&self) -> [u8; 4] {
        let mean = |sum: u64, of: u64| u8::try_from((sum + of / 2) / of.max(1)).unwrap_or(u8::MAX);
        let [red, green, blue] = self.colors.map(|sum| mean(sum, self.alpha));
        [red, green, blue, mean(self.alpha, self.count)]
    }
}

/// Returns the square centre of a picture in its displayed orientation, at most `max_side` pixels
/// per side.
pub(super) fn square(picture: &Picture, max_side: usize) -> Square {
    let from = picture.width.min(picture.height);
    let side = from.min(max_side);
    let (left, top) = ((picture.width - from) / 2, (picture.height - from) / 2);
    let span = |at: usize, begin: usize| begin + at * from / side..begin + (at + 1) * from / side;
    let mut pixels = Vec::with_capacity(side * side * 4);
    for y in 0..side {
        for x in 0..side {
            let (column, row) = picture.orientation.source(x, y, side - 1);
            let mut mean = Mean::default();
            for line in span(row, top) {
                let begin = line * picture.width;
                let columns = span(column, left);
                let line = &picture.pixels
                    [(begin + columns.start) * picture.channels..(begin + columns.end) * picture.channels];
                line.chunks_exact(picture.channels).for_each(|pixel| mean.add(pixel));
            }
            pixels.extend(mean.pixel());
        }
    }
    Square { side, pixels }
}
