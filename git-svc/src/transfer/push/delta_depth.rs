//! Depth of the delta chains in a new pack. git accepts any depth, and then every read of the deepest object costs the
//! whole chain.
//!
//! Reads only the headers of entries, and only of packs that have more objects than a chain may have. The formats are
//! those of git's `gitformat-pack`: packs, and indexes of version 2.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

/// Maximum depth of a chain; git itself makes none that is deeper, whatever its settings.
pub(super) const MAX_CHAIN_DEPTH: u32 = 4095;
/// Offset of the object ids in an index: behind the magic `\377tOc`, the version 2, and 256 counts by first byte.
const IDS_OFFSET: u64 = 8 + 256 * 4;
/// Marks an entry without a delta base.
const NO_BASE: u32 = u32::MAX;
const ID_BYTES: usize = 20;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// Returns whether a pack in the object folder `objects` has a chain that is too deep.
pub(crate) fn has_deep_chains(objects: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(objects.join("pack")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            let (index, pack) = (File::open(&path)?, File::open(path.with_extension("pack"))?);
            if DeltaChains::read(&index, pack)?.is_some_and(|mut chains| chains.deepest() > MAX_CHAIN_DEPTH) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Entries of one pack, by their position in it.
struct DeltaChains {
    /// For each entry, the position of its delta base, or [`NO_BASE`].
    bases: Vec<u32>,
}

/// An index and its pack.
struct PackFiles<'a> {
    index: &'a File,
    pack: File,
    count: u32,
    /// Offsets of the entries in the pack, sorted.
    offsets: Vec<u64>,
}

impl DeltaChains {
    /// Reads the chains; `None` for a pack with too few objects for a deep chain, or an index of another version.
    fn read(index: &File, pack: File) -> io::Result<Option<Self>> {
        let mut head = [0; 8];
        index.read_exact_at(&mut head, 0)?;
        let mut count = [0; 4];
        index.read_exact_at(&mut count, IDS_OFFSET - 4)?;
        let count = u32::from_be_bytes(count);
        if head != *b"\xfftOc\0\0\0\x02" || count <= MAX_CHAIN_DEPTH {
            return Ok(None);
        }
        let mut files = PackFiles { index, pack, count, offsets: Vec::new() };
        let mut offsets: Vec<u64> = files.all_offsets()?;
        offsets.sort_unstable();
        files.offsets = offsets;
        let bases = files.offsets.iter().map(|offset| files.base(*offset)).collect::<io::Result<Vec<_>>>()?;
        Ok(Some(Self { bases }))
    }

    /// Returns the length of the longest chain to an entry without a base; `u32::MAX` for a cycle.
    fn deepest(&mut self) -> u32 {
        let mut depths = vec![NO_BASE; self.bases.len()];
        let mut deepest = 0;
        let mut chain = Vec::new();
        for start in 0..self.bases.len() {
            let mut at = start;
            chain.clear();
            let mut depth = loop {
                if depths[at] != NO_BASE {
                    break depths[at];
                }
                match self.bases[at] as usize {
                    base if base < self.bases.len() && chain.len() <= self.bases.len() => {
                        chain.push(at);
                        at = base;
                    }
                    base if base < self.bases.len() => return u32::MAX,
                    _ => {
                        depths[at] = 0;
                        break 0;
                    }
                }
            };
            while let Some(at) = chain.pop() {
                depth += 1;
                depths[at] = depth;
            }
            deepest = deepest.max(depth);
        }
        deepest
    }
}

impl PackFiles<'_> {
    fn table(&self, column: u64) -> u64 {
        // Tables in order: ids, checksums of 4 bytes, offsets of 4 bytes, and offsets that need 8.
        IDS_OFFSET + u64::from(self.count) * column
    }

    fn all_offsets(&self) -> io::Result<Vec<u64>> {
        let mut small = vec![0; self.count as usize * 4];
        self.index.read_exact_at(&mut small, self.table(24))?;
        let small = small.chunks_exact(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        small.map(|offset| self.whole(offset)).collect()
    }

    fn whole(&self, offset: u32) -> io::Result<u64> {
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        let mut large = [0; 8];
        self.index.read_exact_at(&mut large, self.table(28) + u64::from(offset & 0x7fff_ffff) * 8)?;
        Ok(u64::from_be_bytes(large))
    }

    /// Returns the position of the delta base of the entry at `offset`, or [`NO_BASE`].
    fn base(&self, offset: u64) -> io::Result<u32> {
        // At most 10 bytes of kind and size, then at most 10 of a distance, or 20 of an id.
        let mut bytes = [0; 32];
        let count = self.pack.read_at(&mut bytes, offset)?;
        let bytes = &bytes[..count];
        let kind = bytes.first().copied().unwrap_or_default() >> 4 & 7;
        let size = bytes.iter().position(|byte| byte & 0x80 == 0).map_or(bytes.len(), |last| last + 1);
        let rest = &bytes[size..];
        let base = match kind {
            OFS_DELTA => distance(rest).and_then(|distance| offset.checked_sub(distance)),
            REF_DELTA => rest.get(..ID_BYTES).map(|id| self.find(id)).transpose()?.flatten(),
            _ => None,
        };
        let place = base.and_then(|base| self.offsets.binary_search(&base).ok());
        Ok(place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NO_BASE))
    }

    /// Returns the offset of the object with this id.
    fn find(&self, id: &[u8]) -> io::Result<Option<u64>> {
        let (mut low, mut high) = (0, u64::from(self.count));
        while low < high {
            let middle = low.midpoint(high);
            let mut found = [0; ID_BYTES];
            self.index.read_exact_at(&mut found, IDS_OFFSET + middle * ID_BYTES as u64)?;
            match found.as_slice().cmp(id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let mut small = [0; 4];
                    self.index.read_exact_at(&mut small, self.table(24) + middle * 4)?;
                    return self.whole(u32::from_be_bytes(small)).map(Some);
                }
            }
        }
        Ok(None)
    }
}

/// Decodes the distance of an `OFS_DELTA`: 7 bits per byte, and one more for each byte that follows.
fn distance(bytes: &[u8]) -> Option<u64> {
    let mut distance = 0_u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        distance += u64::from(index > 0);
        distance = distance << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(distance);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_measured_in_any_order() {
        let deepest = |bases: &[u32]| DeltaChains { bases: bases.to_vec() }.deepest();
        assert_eq!(deepest(&[]), 0);
        assert_eq!(deepest(&[NO_BASE, 0, 1, 0]), 2);
        assert_eq!(deepest(&[3, NO_BASE, 0, 1]), 3);
        assert_eq!(deepest(&[1, 0]), u32::MAX);
    }

    #[test]
    fn distances_are_as_git_writes_them() {
        assert_eq!(distance(&[0x7f]), Some(127));
        assert_eq!(distance(&[0x80, 0x00]), Some(128));
        assert_eq!(distance(&[0xff, 0x7f]), Some(16_511));
        assert_eq!((distance(&[0x80]), distance(&[])), (None, None));
    }
}
