//! Tar writer. Its files equal those of `git archive` byte for byte: ustar, with pax headers where
//! a name is too long.

use std::io::{self, Write};

use git_store::repo::read::EntryKind;
use git2::Oid;

const RECORD: usize = 512;
const BLOCK: u64 = 20 * RECORD as u64;
/// Latest time that fits into a header, in seconds since 1970.
const LATEST: i64 = 0o77_777_777_777;

/// Offsets of header fields, and the lengths of two of them, in bytes.
const NAME: usize = 0;
const NAME_LENGTH: usize = 100;
const MODE: usize = 100;
const UID: usize = 108;
const GID: usize = 116;
const SIZE: usize = 124;
const MTIME: usize = 136;
const SUM: usize = 148;
const KIND: usize = 156;
const LINK: usize = 157;
const MAGIC: usize = 257;
const USER: usize = 265;
const GROUP: usize = 297;
const MAJOR: usize = 329;
const MINOR: usize = 337;
const PREFIX: usize = 345;
const PREFIX_LENGTH: usize = 155;

pub(super) struct Tar<W> {
    out: W,
    written: u64,
    seconds: i64,
}

struct Header([u8; RECORD]);

impl Header {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn finish(mut self, kind: u8, mode: u32, size: usize, seconds: i64) -> [u8; RECORD] {
        self.0[KIND] = kind;
        self.put(MODE, format!("{mode:07o}").as_bytes());
        self.put(SIZE, format!("{size:011o}").as_bytes());
        self.put(MTIME, format!("{seconds:011o}").as_bytes());
        for at in [UID, GID, MAJOR, MINOR] {
            self.put(at, b"0000000");
        }
        self.put(MAGIC, b"ustar\x0000");
        self.put(USER, b"root");
        self.put(GROUP, b"root");
        // The checksum is computed with blanks in its own field.
        self.put(SUM, b"        ");
        let sum: u32 = self.0.iter().map(|byte| u32::from(*byte)).sum();
        self.put(SUM, format!("{sum:07o}\0").as_bytes());
        self.0
    }
}

impl<W: Write> Tar<W> {
    /// Starts a file whose entries have the time `seconds`. Its first record names the commit.
    pub(super) fn begin(out: W, commit: Oid, seconds: i64) -> io::Result<Self> {
        let mut tar = Self { out, written: 0, seconds: seconds.clamp(0, LATEST) };
        let record = extended(b"comment", commit.to_string().as_bytes());
        tar.special(b'g', b"pax_global_header", &record)?;
        Ok(tar)
    }

    /// Adds an entry. The path of a directory ends in a slash.
    pub(super) fn add(&mut self, path: &[u8], kind: EntryKind, mode: i32, id: Oid, content: &[u8]) -> io::Result<()> {
        let mut header = Header([0; RECORD]);
        let mut records = Vec::new();
        match split(path) {
            Some((before, name)) => {
                header.put(PREFIX, before);
                header.put(NAME, name);
            }
            None => {
                header.put(NAME, format!("{id}.data").as_bytes());
                records.extend(extended(b"path", path));
            }
        }
        let (letter, mode, body) = match kind {
            EntryKind::Directory | EntryKind::Submodule => (b'5', 0o755, b"".as_slice()),
            EntryKind::Symlink => {
                if content.len() > NAME_LENGTH {
                    header.put(LINK, format!("see {id}.paxheader").as_bytes());
                    records.extend(extended(b"linkpath", content));
                } else {
                    header.put(LINK, content);
                }
                (b'2', 0o777, b"".as_slice())
            }
            EntryKind::File => (b'0', if mode & 0o100 == 0 { 0o644 } else { 0o755 }, content),
        };
        if !records.is_empty() {
            self.special(b'x', format!("{id}.paxheader").as_bytes(), &records)?;
        }
        self.record(&header.finish(letter, mode, body.len(), self.seconds))?;
        self.body(body)
    }

    /// Ends the file and returns the inner writer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let tail = BLOCK - self.written % BLOCK;
        let zeros = if tail < 2 * RECORD as u64 { tail + BLOCK } else { tail };
        for _ in 0..zeros / RECORD as u64 {
            self.record(&[0; RECORD])?;
        }
        Ok(self.out)
    }

    fn special(&mut self, kind: u8, name: &[u8], body: &[u8]) -> io::Result<()> {
        let mut header = Header([0; RECORD]);
        header.put(NAME, name);
        self.record(&header.finish(kind, 0o666, body.len(), self.seconds))?;
        self.body(body)
    }

    fn record(&mut self, record: &[u8]) -> io::Result<()> {
        self.written += record.len() as u64;
        self.out.write_all(record)
    }

    fn body(&mut self, body: &[u8]) -> io::Result<()> {
        self.record(body)?;
        let over = body.len() % RECORD;
        if over > 0 {
            self.record(&[0; RECORD][over..])?;
        }
        Ok(())
    }
}

/// Splits a path into the prefix and the name field of a header; `None` if it does not fit.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= NAME_LENGTH {
        return Some((b"", path));
    }
    let inside = path.strip_suffix(b"/").unwrap_or(path);
    let reach = inside.len().min(PREFIX_LENGTH);
    let slash = (1..reach).rev().find(|at| path[*at] == b'/')?;
    let (before, name) = (&path[..slash], &path[slash + 1..]);
    (name.len() <= NAME_LENGTH).then_some((before, name))
}

/// Returns a pax record, `length key=value\n`, whose length includes its own digits.
fn extended(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}
