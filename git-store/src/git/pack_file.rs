//! Reads entries of a pack through its index: kinds, sizes, delta bases and the start of contents.
//! Never loads a whole object. Formats: gitformat-pack(5), with indexes of version 2.

use std::{
    cmp::Ordering,
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use flate2::bufread::ZlibDecoder;
use git2::{ObjectType, Oid};

/// Offset of the object ids in an index: after the magic `\377tOc`, the version 2, and 256 counts
/// by first byte.
const IDS_OFFSET: u64 = 8 + 256 * 4;
const INDEX_MAGIC: [u8; 8] = *b"\xfftOc\0\0\0\x02";
pub(super) const ID_BYTES: usize = 20;
/// Read size for contents. Of most entries only the start is needed.
const READ_BYTES: usize = 1 << 10;
pub(super) const OFS_DELTA: u8 = 6;
pub(super) const REF_DELTA: u8 = 7;
/// Longest delta header, in bytes: the sizes of base and result, up to 10 bytes each.
pub(super) const MAX_DELTA_SIZES_BYTES: usize = 20;

/// A pack and its index.
#[derive(Debug)]
pub struct PackFile {
    index: File,
    pack: Arc<File>,
    count: u32,
}

struct FileReader {
    file: Arc<File>,
    offset: u64,
}

impl Read for FileReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedKind {
    /// A whole object; `None` for a kind that is not allowed in packs.
    Whole(Option<ObjectType>),
    /// A delta, with the offset of its base if that is in the pack.
    Delta(Option<u64>),
}

/// The header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedEntry {
    /// Whole object or delta.
    pub kind: PackedKind,
    /// Inflated size of the content, in bytes; for a delta, the size of the delta itself.
    pub size: u64,
    /// Offset of the deflated content.
    data: u64,
}

impl PackFile {
    /// Opens the index at `path` and the pack beside it; `None` for an index of another version.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let (index, pack) = (File::open(path)?, Arc::new(File::open(path.with_extension("pack"))?));
        let mut head = [0; 8];
        index.read_exact_at(&mut head, 0)?;
        let mut count = [0; 4];
        index.read_exact_at(&mut count, IDS_OFFSET - 4)?;
        let count = u32::from_be_bytes(count);
        Ok((head == INDEX_MAGIC).then_some(Self { index, pack, count }))
    }

    /// Returns the size of the pack in bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.pack.metadata()?.len())
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Reads the offsets of all entries, in the order of their ids.
    pub fn offsets(&self) -> io::Result<Vec<u64>> {
        let mut small = vec![0; self.count as usize * 4];
        self.index.read_exact_at(&mut small, self.table(24))?;
        let small = small.chunks_exact(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        small.map(|offset| self.whole(offset)).collect()
    }

    /// Reads the ids of the entries at `offsets`, which must be sorted.
    pub fn ids_at(&self, offsets: &[u64]) -> io::Result<Vec<Oid>> {
        let mut ids = Vec::with_capacity(offsets.len());
        for (position, offset) in self.offsets()?.iter().enumerate() {
            if offsets.binary_search(offset).is_ok() {
                let mut id = [0; ID_BYTES];
                self.index.read_exact_at(&mut id, IDS_OFFSET + position as u64 * ID_BYTES as u64)?;
                ids.push(Oid::from_bytes(&id).map_err(io::Error::other)?);
            }
        }
        Ok(ids)
    }

    /// Returns the offset of the object with this id.
    pub fn find(&self, id: &[u8]) -> io::Result<Option<u64>> {
        let (mut low, mut high) = (0, u64::from(self.count));
        while low < high {
            let middle = low.midpoint(high);
            let mut found = [0; ID_BYTES];
            self.index.read_exact_at(&mut found, IDS_OFFSET + middle * ID_BYTES as u64)?;
            match found.as_slice().cmp(id) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let mut small = [0; 4];
                    self.index.read_exact_at(&mut small, self.table(24) + middle * 4)?;
                    return self.whole(u32::from_be_bytes(small)).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Reads the header of the entry at `offset`.
    pub fn entry(&self, offset: u64) -> io::Result<PackedEntry> {
        // At most 10 bytes of kind and size, then at most 10 of a distance or 20 of an id.
        let mut bytes = [0; 32];
        let count = self.pack.read_at(&mut bytes, offset)?;
        let Some((kind, size, used)) = entry_header(&bytes[..count]) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a pack entry is truncated"));
        };
        let rest = &bytes[used..count];
        let (kind, base_bytes) = match kind {
            OFS_DELTA => {
                let (distance, bytes) = distance(rest).unzip();
                let base = distance.and_then(|distance| offset.checked_sub(distance));
                (PackedKind::Delta(base), bytes.unwrap_or_default())
            }
            REF_DELTA => {
                let base = rest.get(..ID_BYTES).map(|id| self.find(id)).transpose()?.flatten();
                (PackedKind::Delta(base), ID_BYTES)
            }
            kind => (PackedKind::Whole(object_type(kind)), 0),
        };
        Ok(PackedEntry { kind, size, data: offset + (used + base_bytes) as u64 })
    }

    /// Returns a stream of an entry's inflated content. For a delta, that is the delta itself.
    pub fn content(&self, entry: &PackedEntry) -> impl Read + use<> {
        let reader = FileReader { file: Arc::clone(&self.pack), offset: entry.data };
        ZlibDecoder::new(BufReader::with_capacity(READ_BYTES, reader)).take(entry.size)
    }

    /// Reads the sizes of a delta's base and result.
    pub fn delta_sizes(&self, delta: &PackedEntry) -> io::Result<(u64, u64)> {
        let mut sizes = Vec::new();
        self.content(delta).take(MAX_DELTA_SIZES_BYTES as u64).read_to_end(&mut sizes)?;
        delta_sizes(&sizes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a delta in a pack has no sizes"))
    }

    fn table(&self, column: u64) -> u64 {
        // Tables in order: ids, 4-byte checksums, 4-byte offsets, and 8-byte offsets where needed.
        IDS_OFFSET + u64::from(self.count) * column
    }

    fn whole(&self, offset: u32) -> io::Result<u64> {
        if offset & 0x8000_0000 == 0 {
            return Ok(u64::from(offset));
        }
        let mut large = [0; 8];
        self.index.read_exact_at(&mut large, self.table(28) + u64::from(offset & 0x7fff_ffff) * 8)?;
        Ok(u64::from_be_bytes(large))
    }
}

pub(super) fn object_type(kind: u8) -> Option<ObjectType> {
    match kind {
        1 => Some(ObjectType::Commit),
        2 => Some(ObjectType::Tree),
        3 => Some(ObjectType::Blob),
        4 => Some(ObjectType::Tag),
        _ => None,
    }
}

/// Decodes kind and size of an entry, and returns them with the number of bytes they take.
fn entry_header(bytes: &[u8]) -> Option<(u8, u64, usize)> {
    let first = *bytes.first()?;
    let (mut size, mut shift, mut used) = (u64::from(first & 0x0f), 4, 1);
    let mut last = first;
    while last & 0x80 != 0 {
        last = *bytes.get(used)?;
        size |= u64::from(last & 0x7f).checked_shl(shift).filter(|_| shift < 60)?;
        (shift, used) = (shift + 7, used + 1);
    }
    Some((first >> 4 & 7, size, used))
}

/// Decodes the distance of an `OFS_DELTA`: 7 bits per byte, plus one for each further byte. Also
/// returns its length.
fn distance(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut distance = 0_u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        distance += u64::from(index > 0);
        distance = distance << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((distance, index + 1));
        }
    }
    None
}

pub(super) fn delta_sizes(delta: &[u8]) -> Option<(u64, u64)> {
    let (base, used) = delta_size(delta)?;
    let (result, _) = delta_size(&delta[used..])?;
    Some((base, result))
}

/// Decodes a number of 7 bits per byte, lowest first. Also returns its length.
fn delta_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0_u64;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        size |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((size, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_as_git_writes_them() {
        assert_eq!(distance(&[0x7f]), Some((127, 1)));
        assert_eq!(distance(&[0x80, 0x00]), Some((128, 2)));
        assert_eq!(distance(&[0xff, 0x7f, 0x01]), Some((16_511, 2)));
        assert_eq!((distance(&[0x80]), distance(&[])), (None, None));
    }

    #[test]
    fn sizes_are_as_git_writes_them() {
        assert_eq!(entry_header(&[0x1f]), Some((1, 15, 1)));
        assert_eq!(entry_header(&[0xb0, 0x01, 0x07]), Some((3, 16, 2)));
        assert_eq!((entry_header(&[0x80]), entry_header(&[])), (None, None));
        assert_eq!(entry_header(&[0xff; 32]), None, "no end");
        assert_eq!(delta_sizes(&[0x05, 0x80, 0x01, 0x90]), Some((5, 128)));
        assert_eq!((delta_sizes(&[0x05]), delta_sizes(&[0xff; 20])), (None, None));
    }
}
