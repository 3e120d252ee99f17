//! Reads commits, tags and trees within limits. Checks the size before loading, so oversized
//! objects from before the limits are never in memory. Of oversized commits and tags, the fields
//! and the start of the message can be read.

use std::{
    cell::RefCell,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use git2::{ObjectType, Oid, Repository, Tree, TreeEntry};

use crate::{
    git::pack_file::{PackFile, PackedKind},
    types::{
        error::GitError,
        limits::{MAX_COMMIT_BYTES, MAX_COMMIT_PARENTS, MAX_TREE_BYTES},
    },
};

/// How much of an oversized object is read for its fields, in bytes.
const MAX_SCANNED_BYTES: u64 = 64 << 20;
pub(super) const MAX_TAG_DEPTH: usize = 1000;
/// Header lines of oversized objects are cut at this many bytes.
const MAX_LINE_BYTES: usize = 4096;
/// First words of the header lines to keep.
const KEPT_LINES: [&[u8]; 8] =
    [b"tree ", b"author ", b"committer ", b"encoding ", b"object ", b"type ", b"tag ", b"tagger "];

/// Headers that a thread caches, indexed by the first bytes of the id.
const REMEMBERED_HEADERS: usize = 1024;

/// Type of an object and its size in bytes.
pub type Header = (ObjectType, u64);

thread_local! {
    static HEADERS: RefCell<Vec<Option<(Oid, Header)>>> = RefCell::new(vec![None; REMEMBERED_HEADERS]);
}

/// Reads the header of an object and caches it for [`header`].
pub fn read_header(repo: &Repository, id: Oid) -> Result<Header, git2::Error> {
    let (size, kind) = repo.odb()?.read_header(id)?;
    HEADERS.with_borrow_mut(|headers| headers[slot(id)] = Some((id, (kind, size as u64))));
    Ok((kind, size as u64))
}

/// Returns the header of an object, possibly cached. The cache works across repositories because an
/// id is a hash of type, size and content, so it does not show whether this repository has the
/// object.
pub fn header(repo: &Repository, id: Oid) -> Result<Header, git2::Error> {
    let remembered = HEADERS.with_borrow(|headers| headers[slot(id)]);
    match remembered {
        Some((known, header)) if known == id => Ok(header),
        _ => read_header(repo, id),
    }
}

fn slot(id: Oid) -> usize {
    let bytes = id.as_bytes();
    usize::from(u16::from_be_bytes([bytes[0], bytes[1]])) % REMEMBERED_HEADERS
}

/// Reads the fields of a commit, and up to `max_message_bytes` of its message.
///
/// # Errors
/// `TooLarge` if the fields of a commit above [`MAX_COMMIT_BYTES`] cannot be read.
pub fn commit_head(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<ObjectHead, GitError> {
    ObjectHead::read(repo, id, ObjectType::Commit, max_message_bytes)
}

/// Reads the fields of a tag object; as [`commit_head`].
pub fn tag_head(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<ObjectHead, GitError> {
    ObjectHead::read(repo, id, ObjectType::Tag, max_message_bytes)
}

/// Loads a tree, up to [`MAX_TREE_BYTES`].
pub fn find_tree(repo: &Repository, id: Oid) -> Result<Tree<'_>, GitError> {
    sized_tree(repo, id).map(|(tree, _)| tree)
}

/// Loads a tree, and returns it with its stored size in bytes.
pub fn sized_tree(repo: &Repository, id: Oid) -> Result<(Tree<'_>, u64), GitError> {
    let size = check_size(repo, id, ObjectType::Tree)?;
    match repo.find_tree(id) {
        // A mode of more than 16 bits, which git truncates.
        Err(error) if error.class() == git2::ErrorClass::Tree => Err(GitError::Unreadable { what: "the folder" }),
        tree => Ok((tree?, size)),
    }
}

/// Returns the mode of an entry as git reads it, without bits that old versions kept. libgit2
/// accepts links and submodules with executable bits.
pub fn entry_mode(entry: &TreeEntry<'_>) -> i32 {
    let mode = entry.filemode_raw();
    match mode & 0o170_000 {
        0o100_000 if mode & 0o100 == 0 => 0o100_644,
        0o100_000 => 0o100_755,
        kind @ (0o040_000 | 0o120_000) => kind,
        _ => 0o160_000,
    }
}

/// Returns the id of a commit's tree.
pub fn tree_id(repo: &Repository, commit: Oid) -> Result<Oid, GitError> {
    commit_head(repo, commit, 0)?.tree()
}

/// Loads the tree of a commit.
pub fn tree_of(repo: &Repository, commit: Oid) -> Result<Tree<'_>, GitError> {
    find_tree(repo, tree_id(repo, commit)?)
}

/// Returns the id that a tag object points to.
pub fn tag_target(repo: &Repository, tag: Oid) -> Result<Oid, GitError> {
    tag_head(repo, tag, 0)?.target()
}

fn check_size(repo: &Repository, id: Oid, kind: ObjectType) -> Result<u64, GitError> {
    let (found, size) = header(repo, id)?;
    let (what, limit) = match kind {
        ObjectType::Tree => ("the folder", MAX_TREE_BYTES),
        ObjectType::Tag => ("the tag", MAX_COMMIT_BYTES as u64),
        _ => ("the commit", MAX_COMMIT_BYTES as u64),
    };
    // The same error as in libgit2, which loads an object before it compares types.
    if found != kind {
        let message = format!("the object is a {found}, not a {kind}");
        return Err(git2::Error::new(git2::ErrorCode::NotFound, git2::ErrorClass::Invalid, message).into());
    }
    if size > limit { Err(GitError::TooLarge { what, limit }) } else { Ok(size) }
}

/// Fields of a commit or tag of any size, and the start of its message. We parse it ourselves
/// because libgit2 rejects a malformed author, committer or tagger, common in old histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHead {
    /// The first line for each of [`KEPT_LINES`], cut at [`MAX_LINE_BYTES`] in oversized objects.
    lines: Vec<Vec<u8>>,
    /// The first parents of a commit, at most [`MAX_COMMIT_PARENTS`].
    pub parents: Vec<Oid>,
    /// Start of the message.
    pub message: Vec<u8>,
    /// True if the object is above its limit, or has more parents or a longer message.
    pub is_cut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the end of the parents, which git accepts only right after the tree.
    Parents,
    /// After the parents.
    Rest,
}

impl ObjectHead {
    fn read(repo: &Repository, id: Oid, kind: ObjectType, max_message_bytes: usize) -> Result<Self, GitError> {
        match check_size(repo, id, kind) {
            Ok(_) => {
                let odb = repo.odb()?;
                let object = odb.read(id)?;
                Self::parse(object.data(), usize::MAX, max_message_bytes).map_err(GitError::io("reading an object"))
            }
            Err(error @ GitError::TooLarge { .. }) => Self::stream(repo, id, max_message_bytes)?.ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Streams the fields of an oversized object; `None` for a delta, which must be read whole.
    fn stream(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<Option<Self>, GitError> {
        let parse = |stream: &mut dyn Read| {
            let stream = BufReader::new(stream.take(MAX_SCANNED_BYTES));
            Self::parse(stream, MAX_LINE_BYTES, max_message_bytes).map(|head| Self { is_cut: true, ..head })
        };
        let odb = repo.odb()?;
        // libgit2 can stream loose objects only.
        if let Ok((mut stream, ..)) = odb.reader(id) {
            return parse(&mut stream).map(Some).map_err(GitError::io("reading an object"));
        }
        let packed = packed_stream(&repo.path().join("objects/pack"), id).map_err(GitError::io("reading a pack"))?;
        let head = packed.map(|mut stream| parse(&mut stream)).transpose();
        head.map_err(GitError::io("reading an object of a pack"))
    }

    /// Parses a commit or tag, with limits on lines and message.
    pub fn parse(mut stream: impl BufRead, max_line_bytes: usize, max_message_bytes: usize) -> io::Result<Self> {
        let (mut head, mut place) = (Self::default(), Place::Parents);
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut stream).take(max_line_bytes as u64).read_until(b'\n', &mut line)?;
            match line.as_slice() {
                // End of the object.
                b"" => return Ok(head),
                b"\n" => break,
                _ => {}
            }
            if line.last() != Some(&b'\n') {
                stream.skip_until(b'\n')?;
            }
            place = head.add(line.strip_suffix(b"\n").unwrap_or(&line), place);
        }
        stream.take((max_message_bytes as u64).saturating_add(1)).read_to_end(&mut head.message)?;
        head.is_cut |= head.message.len() > max_message_bytes;
        head.message.truncate(max_message_bytes);
        Ok(head)
    }

    fn add(&mut self, line: &[u8], place: Place) -> Place {
        if let (Place::Parents, Some(parent)) = (place, line.strip_prefix(b"parent ")) {
            if self.parents.len() < MAX_COMMIT_PARENTS {
                self.parents.extend(full_id(parent));
            } else {
                self.is_cut = true;
            }
            return place;
        }
        if let Some(word) = KEPT_LINES.iter().find(|word| line.starts_with(word))
            && self.after(word).is_none()
        {
            self.lines.push(line.to_vec());
        }
        if line.starts_with(b"tree ") { place } else { Place::Rest }
    }

    /// Returns the rest of the first header line that starts with `word`, one of [`KEPT_LINES`].
    pub fn after(&self, word: &[u8]) -> Option<&[u8]> {
        self.lines.iter().find_map(|line| line.strip_prefix(word))
    }

    /// Returns the encoding label of names and message.
    pub fn encoding(&self) -> Option<&[u8]> {
        self.after(b"encoding ")
    }

    /// Returns the tree of a commit; `Unreadable` if the header is malformed.
    pub fn tree(&self) -> Result<Oid, GitError> {
        self.id_after(b"tree ")
    }

    /// Returns what a tag points to; `Unreadable` if the header is malformed.
    pub fn target(&self) -> Result<Oid, GitError> {
        self.id_after(b"object ")
    }

    /// Parses the object id in the header line that starts with `word`.
    fn id_after(&self, word: &[u8]) -> Result<Oid, GitError> {
        self.after(word).and_then(full_id).ok_or(GitError::Unreadable { what: "the commit or tag" })
    }
}

/// Parses an object id of 40 hex digits.
pub fn full_id(text: &[u8]) -> Option<Oid> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    Oid::from_str(text).ok()
}

/// Streams an object from the packs in `packs`; `None` if no pack has it whole.
fn packed_stream(packs: &Path, id: Oid) -> io::Result<Option<impl Read + use<>>> {
    for file in fs::read_dir(packs)? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "idx") {
            continue;
        }
        let pack = match PackFile::open(&path) {
            // Maintenance replaced the pack.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            pack => pack?,
        };
        let Some(pack) = pack else { continue };
        let Some(offset) = pack.find(id.as_bytes())? else { continue };
        let entry = pack.entry(offset)?;
        if matches!(entry.kind, PackedKind::Whole(_)) {
            return Ok(Some(pack.content(&entry)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
