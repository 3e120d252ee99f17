//! Writes loose objects durably without libgit2, which searches all packs for each object after
//! rereading their folder, and whose files would have to be reopened for a sync.

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use git2::{ObjectType, Oid};
use uuid::Uuid;

use super::{compressibility::CompressionSampler, durable::sync_if_present, usage::LooseObjects};
use crate::types::error::GitError;

/// Attempts to create a file in a folder. A git process may remove the folder while it is empty.
const MAX_ATTEMPTS: usize = 5;
/// A file up to this size takes one block on usual file systems.
const BLOCK_BYTES: usize = 4096;
/// zlib's overhead around an uncompressed block: header 2, block 5, checksum 4 bytes.
const STORED_OVERHEAD_BYTES: usize = 11;
/// Objects up to this size, with their header, are stored uncompressed.
const MAX_STORED_BYTES: usize = BLOCK_BYTES - STORED_OVERHEAD_BYTES;
/// Longest header of a loose object: type, space, size and NUL.
const MAX_HEADER_BYTES: u64 = 32;
/// Read-only, as git creates object files.
const FILE_MODE: u32 = 0o444;

/// An object to write. Clones share the content.
#[derive(Clone, PartialEq, Eq)]
pub struct NewObject {
    id: Oid,
    kind: ObjectType,
    content: Bytes,
}

impl NewObject {
    /// Creates an object and computes its id.
    pub fn new(kind: ObjectType, content: impl Into<Bytes>) -> Result<Self, GitError> {
        let content = content.into();
        Ok(Self { id: Oid::hash_object(kind, &content)?, kind, content })
    }

    /// The object id.
    #[must_use]
    pub fn id(&self) -> Oid {
        self.id
    }

    /// Commit, tree, blob or tag.
    #[must_use]
    pub fn kind(&self) -> ObjectType {
        self.kind
    }

    /// The content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Writes the object to the folder `objects` and syncs the file. If it exists, perhaps from an
    /// unacknowledged write, syncs it and updates its time, so that clean-up sees it as new.
    /// Blocking.
    fn write(&self, objects: &Path) -> Result<(PathBuf, Written), GitError> {
        let hex = self.id.to_string();
        let (folder, name) = hex.split_at(2);
        let folder = objects.join(folder);
        let path = folder.join(name);
        let written = match fs::File::open(&path) {
            Ok(file) => {
                file.set_modified(SystemTime::now()).and_then(|()| file.sync_all()).map(|()| Written::default())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(&folder, &path),
            Err(error) => Err(error),
        };
        let written = written.map_err(|error| GitError::io("writing an object")(error).or_full())?;
        Ok((folder, written))
    }

    /// Writes the object to the folder `objects` of a process that may lose it in a crash, unless it
    /// is there. Blocking.
    pub(super) fn write_unsynced(&self, objects: &Path) -> Result<(), GitError> {
        let hex = self.id.to_string();
        let (folder, name) = hex.split_at(2);
        let folder = objects.join(folder);
        let written = create_beside(&folder).and_then(|(file, beside, _)| {
            self.encode(&file)?;
            fs::rename(&beside, folder.join(name))
        });
        written.map_err(|error| GitError::io("writing an object")(error).or_full())
    }

    fn create(&self, folder: &Path, path: &Path) -> io::Result<Written> {
        let (file, beside, has_new_folder) = create_beside(folder)?;
        let written = self.encode(&file).and_then(|bytes| {
            file.sync_all()?;
            fs::rename(&beside, path)?;
            Ok(Written { added: LooseObjects { objects: 1, bytes }, has_new_folder })
        });
        if written.is_err() {
            // A leftover is removed with the abandoned files.
            drop(fs::remove_file(&beside));
        }
        written
    }

    /// Writes the loose object format: type, length, NUL and content, in zlib's format (git's
    /// `object-file.c`). Compresses only if that may save a disk block: a compressor takes some 300
    /// KB of memory, allocated per object, and already compressed content would grow and read ten
    /// times as slowly. Returns the file size in bytes.
    fn encode(&self, mut file: &fs::File) -> io::Result<u64> {
        let header = format!("{} {}\0", self.kind, self.content.len());
        if header.len() + self.content.len() <= MAX_STORED_BYTES {
            let stored = stored(&[header.as_bytes(), &self.content].concat());
            return file.write_all(&stored).map(|()| stored.len() as u64);
        }
        let is_compressible = CompressionSampler::default().is_compressible(&self.content)?;
        let level = if is_compressible { Compression::fast() } else { Compression::none() };
        let mut encoder = ZlibEncoder::new(file, level);
        encoder.write_all(header.as_bytes())?;
        encoder.write_all(&self.content)?;
        encoder.try_finish()?;
        Ok(encoder.total_out())
    }
}

/// Returns up to [`MAX_STORED_BYTES`] in zlib's format (RFC 1950) as one uncompressed block (RFC
/// 1951, 3.2.4).
fn stored(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16;
    let mut out = Vec::with_capacity(data.len() + STORED_OVERHEAD_BYTES);
    // Deflate with a 32 KiB window, fastest level; then a final stored block.
    out.extend([0x78, 0x01, 0x01]);
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend_from_slice(data);
    out.extend(adler2::adler32_slice(data).to_be_bytes());
    out
}

impl fmt::Debug for NewObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} of {} bytes", self.kind, self.id, self.content.len())
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Objects that were new, with their files.
    pub added: LooseObjects,
    /// Whether a folder was created, so the caller must sync `objects`.
    pub has_new_folder: bool,
}

/// Writes objects to the folder `objects`. Durable, except for the names of new folders. On an
/// error, some may be written. Blocking.
pub fn write_objects(objects: &Path, new: &[NewObject]) -> Result<Written, GitError> {
    let (mut folders, mut all) = (BTreeSet::new(), Written::default());
    for object in new {
        let (folder, written) = object.write(objects)?;
        all.added += written.added;
        all.has_new_folder |= written.has_new_folder;
        folders.insert(folder);
    }
    // git may have packed the folder's objects, synced the pack, and removed the folder.
    folders.iter().try_for_each(|folder| sync_if_present(folder).map(drop))?;
    Ok(all)
}

/// Reads a loose object of the folder `objects`; `None` if it is not there. Blocking.
///
/// # Errors
/// `TooLarge` if it has more than `max_bytes`, and `Unreadable` if it is damaged.
pub fn read_object(objects: &Path, id: Oid, max_bytes: u64) -> Result<Option<NewObject>, GitError> {
    let hex = id.to_string();
    let (folder, name) = hex.split_at(2);
    let file = match fs::File::open(objects.join(folder).join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(GitError::io("reading an object"))?,
    };
    let mut data = Vec::new();
    let limit = max_bytes.saturating_add(MAX_HEADER_BYTES);
    ZlibDecoder::new(file).take(limit).read_to_end(&mut data).map_err(GitError::io("reading an object"))?;
    let damaged = GitError::Unreadable { what: "the object" };
    let Some(end) = data.iter().position(|byte| *byte == 0) else { return Err(damaged) };
    let header = std::str::from_utf8(&data[..end]).ok().and_then(|header| header.split_once(' '));
    let Some((Some(kind), Ok(size))) = header.map(|(kind, size)| (ObjectType::from_str(kind), size.parse::<u64>()))
    else {
        return Err(damaged);
    };
    if size > max_bytes {
        return Err(GitError::TooLarge { what: "the object", limit: max_bytes });
    }
    let object = NewObject::new(kind, Bytes::from(data).slice(end + 1..))?;
    if object.id == id { Ok(Some(object)) } else { Err(damaged) }
}

/// Creates a temporary file in a folder, which is created if missing. Returns the file, its path,
/// and whether the folder is new.
fn create_beside(folder: &Path) -> io::Result<(fs::File, PathBuf, bool)> {
    let beside = folder.join(format!("tmp_obj_{}", Uuid::new_v4()));
    let (mut has_new_folder, mut attempts_left) = (false, MAX_ATTEMPTS);
    loop {
        attempts_left -= 1;
        match fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&beside) {
            Ok(file) => return Ok((file, beside, has_new_folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts_left > 0 => {}
            Err(error) => return Err(error),
        }
        match fs::create_dir(folder) {
            Ok(()) => has_new_folder = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
