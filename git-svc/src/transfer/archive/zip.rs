//! Zip writer that never seeks. Names are bytes: neither git nor this writer requires UTF-8.

use std::io::{self, Write};

use chrono::{DateTime, Datelike as _, Timelike as _};
use flate2::{Crc, write::DeflateEncoder};
use git_store::{disk::compressibility::CompressionSampler, repo::read::EntryKind};
use git2::Oid;

use super::COMPRESSION_LEVEL;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Flag of an entry whose name is UTF-8.
const UTF8: u16 = 1 << 11;
/// Version of the format needed to read an entry: 2.0.
const NEEDED: u16 = 20;
/// Made on Unix, so that the modes of entries count.
const MADE_BY: u16 = 3 << 8 | NEEDED;
/// Version of the format needed to read a zip64 directory: 4.5.
const NEEDED_64: u16 = 45;

pub(super) struct Zip<W> {
    out: W,
    written: u64,
    /// DOS date and time, and seconds since 1970.
    stamp: (u16, u16, u32),
    directory: Vec<u8>,
    entries: u64,
    /// Reused for all files, because its tables are larger than most files.
    deflate: DeflateEncoder<Vec<u8>>,
    sampler: CompressionSampler,
}

impl<W: Write> Zip<W> {
    /// Starts a file whose entries have the time `seconds`.
    pub(super) fn begin(out: W, seconds: i64) -> Self {
        let deflate = DeflateEncoder::new(Vec::new(), COMPRESSION_LEVEL);
        let (stamp, sampler) = (stamp(seconds), CompressionSampler::default());
        Self { out, written: 0, stamp, directory: Vec::new(), entries: 0, deflate, sampler }
    }

    /// Adds an entry. The path of a directory ends in a slash.
    pub(super) fn add(&mut self, path: &[u8], kind: EntryKind, mode: i32, content: &[u8]) -> io::Result<()> {
        let (attributes, content) = match kind {
            EntryKind::Directory | EntryKind::Submodule => (0o040_755 << 16 | 0x10, b"".as_slice()),
            EntryKind::Symlink => (0o120_777 << 16, content),
            EntryKind::File if mode & 0o100 == 0 => (0o100_644 << 16, content),
            EntryKind::File => (0o100_755 << 16, content),
        };
        let packed = if kind == EntryKind::File { self.deflated(content)? } else { None };
        let mut crc = Crc::new();
        crc.update(content);
        let (date, time, seconds) = self.stamp;
        let flags = if !path.is_ascii() && std::str::from_utf8(path).is_ok() { UTF8 } else { 0 };
        let method = if packed.is_some() { DEFLATED } else { STORED };
        let body = packed.as_deref().unwrap_or(content);
        let mut common = Vec::with_capacity(32);
        for half in [NEEDED, flags, method, time, date] {
            common.extend(half.to_le_bytes());
        }
        for word in [crc.sum(), size(body.len())?, size(content.len())?] {
            common.extend(word.to_le_bytes());
        }
        // The path is followed by an extra field of 9 bytes: the time in seconds.
        for half in [length(path)?, 9] {
            common.extend(half.to_le_bytes());
        }
        let extra = [b"UT\x05\0\x01".as_slice(), &seconds.to_le_bytes()].concat();
        let offset = size(self.written)?;
        self.directory.extend([b"PK\x01\x02".as_slice(), &MADE_BY.to_le_bytes(), &common, &[0; 6]].concat());
        self.directory.extend(u32::to_le_bytes(attributes));
        self.directory.extend([&offset.to_le_bytes(), path, &extra].concat());
        self.entries += 1;
        self.write(&[b"PK\x03\x04", &common[..], path, &extra].concat())?;
        self.write(body)
    }

    /// Ends the file with the commit as its comment. Returns the inner writer.
    pub(super) fn finish(mut self, commit: Oid) -> io::Result<W> {
        let (start, length) = (self.written, self.directory.len() as u64);
        let directory = std::mem::take(&mut self.directory);
        self.write(&directory)?;
        let count = u16::try_from(self.entries).unwrap_or(u16::MAX);
        if count == u16::MAX {
            let longer = self.longer_end(start, length);
            self.write(&longer)?;
        }
        let comment = commit.to_string();
        let end = [
            b"PK\x05\x06\0\0\0\0".as_slice(),
            &count.to_le_bytes(),
            &count.to_le_bytes(),
            &size(length)?.to_le_bytes(),
            &size(start)?.to_le_bytes(),
            &self::length(comment.as_bytes())?.to_le_bytes(),
            comment.as_bytes(),
        ];
        self.write(&end.concat())?;
        Ok(self.out)
    }

    /// Returns the zip64 end of a directory with more entries than 16 bits can count.
    fn longer_end(&self, start: u64, length: u64) -> Vec<u8> {
        let mut end = b"PK\x06\x06".to_vec();
        end.extend(44_u64.to_le_bytes());
        for half in [NEEDED_64, NEEDED_64] {
            end.extend(half.to_le_bytes());
        }
        end.extend([0; 8]);
        for long in [self.entries, self.entries, length, start] {
            end.extend(long.to_le_bytes());
        }
        end.extend(b"PK\x06\x07\0\0\0\0");
        end.extend((start + length).to_le_bytes());
        end.extend(1_u32.to_le_bytes());
        end
    }

    /// Compresses the content; `None` if it is not worth it.
    fn deflated(&mut self, content: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if !self.sampler.is_compressible(content)? {
            return Ok(None);
        }
        self.deflate.write_all(content)?;
        let packed = self.deflate.reset(Vec::new())?;
        Ok((packed.len() < content.len()).then_some(packed))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn size<N: TryInto<u32>>(bytes: N) -> io::Result<u32> {
    bytes.try_into().map_err(|_| io::Error::other("a zip file of more than 4 GiB"))
}

fn length(name: &[u8]) -> io::Result<u16> {
    u16::try_from(name.len()).map_err(|_| io::Error::other("a name of more than 64 KiB in a zip file"))
}

/// Returns a UTC time as DOS date and time, in steps of two seconds from 1980 to 2107, and as
/// seconds since 1970.
fn stamp(seconds: i64) -> (u16, u16, u32) {
    const FIRST: i64 = 315_532_800;
    const LAST: i64 = 4_354_819_198;
    let time = DateTime::from_timestamp(seconds.clamp(FIRST, LAST), 0).unwrap_or_default();
    let small = |number: u32| u16::try_from(number).unwrap_or(0);
    let year = u16::try_from(time.year() - 1980).unwrap_or(0);
    let date = year << 9 | small(time.month()) << 5 | small(time.day());
    let clock = small(time.hour()) << 11 | small(time.minute()) << 5 | small(time.second() / 2);
    (date, clock, u32::try_from(seconds.clamp(0, i64::from(i32::MAX))).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use git_store::disk::compressibility::{MIN_SAMPLED_BYTES, SAMPLE_BYTES};

    use super::*;

    #[test]
    fn large_files_are_compressed_where_that_helps() {
        let mut zip = Zip::begin(Vec::new(), 0);
        let noise: Vec<u8> = (0..MIN_SAMPLED_BYTES + 1).map(|_| rand::random()).collect();
        assert!(zip.deflated(&noise).unwrap().is_none());
        for start in [0, noise.len() / 2, noise.len() - SAMPLE_BYTES] {
            let mut mixed = noise.clone();
            mixed[start..start + SAMPLE_BYTES].fill(b'a');
            assert!(zip.deflated(&mixed).unwrap().is_some_and(|packed| packed.len() < noise.len() - SAMPLE_BYTES / 2));
        }
        assert!(
            zip.deflated(&[b'a'; 4 * MIN_SAMPLED_BYTES]).unwrap().is_some_and(|packed| packed.len() < SAMPLE_BYTES)
        );
        assert!(zip.deflated(&noise[..SAMPLE_BYTES]).unwrap().is_none());
    }
}
