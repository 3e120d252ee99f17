//! Commits, tags and trees within their limits. The size of an object is read before the object, so that one that is larger, from times
//! without limits, is never in memory. Of a larger commit or tag the fields and the beginning of the message can be read.
//!
//! Not here: blobs (`read::entry`), and the encoding of texts (`text`).

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

/// Bytes of an oversized object that are read for its fields. What is behind them is left out.
const MAX_SCANNED_BYTES: u64 = 64 << 20;
/// Maximum length of a chain of tags that point to tags.
pub(super) const MAX_TAG_DEPTH: usize = 1000;
/// Longest line of an oversized object's header that is kept, in bytes.
const MAX_LINE_BYTES: usize = 4096;
/// Lines of a header that are kept, by their first words.
const KEPT_LINES: [&[u8]; 8] =
    [b"tree ", b"author ", b"committer ", b"encoding ", b"object ", b"type ", b"tag ", b"tagger "];

/// Headers that a thread remembers, by the first bytes of the object ids.
const REMEMBERED_HEADERS: usize = 1024;

/// The type and the size in bytes of an object.
pub type Header = (ObjectType, u64);

thread_local! {
    static HEADERS: RefCell<Vec<Option<(Oid, Header)>>> = RefCell::new(vec![None; REMEMBERED_HEADERS]);
}

/// Reads the header of an object. The next [`header`] of it need not.
///
/// # Errors
/// Those of libgit2.
pub fn read_header(repo: &Repository, id: Oid) -> Result<Header, git2::Error> {
    let (size, kind) = repo.odb()?.read_header(id)?;
    HEADERS.with_borrow_mut(|headers| headers[slot(id)] = Some((id, (kind, size as u64))));
    Ok((kind, size as u64))
}

/// Returns the header of an object that is to be read, perhaps as this thread remembers it: an id is the hash of type, size and content, so
/// the object has the same header in every repository. Whether it is in this one is known once it is read.
///
/// # Errors
/// Those of libgit2.
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
/// `TooLarge` for a commit above [`MAX_COMMIT_BYTES`] whose fields cannot be read, and those of libgit2.
pub fn commit_head(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<ObjectHead, GitError> {
    ObjectHead::read(repo, id, ObjectType::Commit, max_message_bytes)
}

/// Reads the fields of a tag object, and up to `max_message_bytes` of its message.
///
/// # Errors
/// As [`commit_head`].
pub fn tag_head(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<ObjectHead, GitError> {
    ObjectHead::read(repo, id, ObjectType::Tag, max_message_bytes)
}

/// Returns a tree.
///
/// # Errors
/// `TooLarge` above [`MAX_TREE_BYTES`], `Unreadable`, and those of libgit2.
pub fn find_tree(repo: &Repository, id: Oid) -> Result<Tree<'_>, GitError> {
    sized_tree(repo, id).map(|(tree, _)| tree)
}

/// Returns a tree and its size in bytes, as it is stored.
///
/// # Errors
/// As [`find_tree`].
pub fn sized_tree(repo: &Repository, id: Oid) -> Result<(Tree<'_>, u64), GitError> {
    let size = check_size(repo, id, ObjectType::Tree)?;
    match repo.find_tree(id) {
        // A mode of more than 16 bits, of which git drops the rest.
        Err(error) if error.class() == git2::ErrorClass::Tree => Err(GitError::Unreadable { what: "the folder" }),
        tree => Ok((tree?, size)),
    }
}

/// Returns the mode of an entry as git reads it, which drops bits that old versions kept. libgit2 takes links and submodules that have
/// bits of permissions for programs.
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
///
/// # Errors
/// As [`commit_head`].
pub fn tree_id(repo: &Repository, commit: Oid) -> Result<Oid, GitError> {
    commit_head(repo, commit, 0)?.tree()
}

/// Returns the tree of a commit.
///
/// # Errors
/// `TooLarge`, and those of libgit2.
pub fn tree_of(repo: &Repository, commit: Oid) -> Result<Tree<'_>, GitError> {
    find_tree(repo, tree_id(repo, commit)?)
}

/// Returns the id of the object that a tag object points to.
///
/// # Errors
/// As [`tag_head`].
pub fn tag_target(repo: &Repository, tag: Oid) -> Result<Oid, GitError> {
    tag_head(repo, tag, 0)?.target()
}

/// Returns the size of an object of this type, if that is within its limit.
fn check_size(repo: &Repository, id: Oid, kind: ObjectType) -> Result<u64, GitError> {
    let (found, size) = header(repo, id)?;
    let (what, limit) = match kind {
        ObjectType::Tree => ("the folder", MAX_TREE_BYTES),
        ObjectType::Tag => ("the tag", MAX_COMMIT_BYTES as u64),
        _ => ("the commit", MAX_COMMIT_BYTES as u64),
    };
    // The error of libgit2, which loads an object before it compares the types.
    if found != kind {
        let message = format!("the object is a {found}, not a {kind}");
        return Err(git2::Error::new(git2::ErrorCode::NotFound, git2::ErrorClass::Invalid, message).into());
    }
    if size > limit { Err(GitError::TooLarge { what, limit }) } else { Ok(size) }
}

/// The fields of a commit or tag of any size, and the beginning of its message. Read by ourselves, as libgit2 reads no commit and no tag
/// whose author, committer or tagger is malformed, of which old histories have many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectHead {
    /// The lines of [`KEPT_LINES`], the first of each word. Those of an oversized object are cut at [`MAX_LINE_BYTES`].
    lines: Vec<Vec<u8>>,
    /// The first parents of a commit, at most [`MAX_COMMIT_PARENTS`].
    pub parents: Vec<Oid>,
    /// The beginning of the message.
    pub message: Vec<u8>,
    /// True if the object is above its limit, or has more parents or a longer message.
    pub is_cut: bool,
}

/// The state of [`ObjectHead::parse`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the end of the parents, which git reads behind the tree and nowhere else.
    Parents,
    /// Behind them.
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

    /// Reads the fields of an oversized object as a stream; `None` for one that is stored as a delta, which cannot be read in part.
    ///
    /// # Errors
    /// Those of libgit2, and `Io`.
    fn stream(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<Option<Self>, GitError> {
        let parse = |stream: &mut dyn Read| {
            let stream = BufReader::new(stream.take(MAX_SCANNED_BYTES));
            Self::parse(stream, MAX_LINE_BYTES, max_message_bytes).map(|head| Self { is_cut: true, ..head })
        };
        let odb = repo.odb()?;
        // libgit2 streams objects that are in files of their own, and no others.
        if let Ok((mut stream, ..)) = odb.reader(id) {
            return parse(&mut stream).map(Some).map_err(GitError::io("reading an object"));
        }
        let packed = packed_stream(&repo.path().join("objects/pack"), id).map_err(GitError::io("reading a pack"))?;
        let head = packed.map(|mut stream| parse(&mut stream)).transpose();
        head.map_err(GitError::io("reading an object of a pack"))
    }

    /// Reads the head of a commit from `stream`, with limits on a line and on the message.
    pub fn parse(mut stream: impl BufRead, max_line_bytes: usize, max_message_bytes: usize) -> io::Result<Self> {
        let (mut head, mut place) = (Self::default(), Place::Parents);
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut stream).take(max_line_bytes as u64).read_until(b'\n', &mut line)?;
            match line.as_slice() {
                // The end of the object.
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

    /// Returns the rest of the first header line that begins with `word`, a word of [`KEPT_LINES`].
    pub fn after(&self, word: &[u8]) -> Option<&[u8]> {
        self.lines.iter().find_map(|line| line.strip_prefix(word))
    }

    /// Returns the label of the encoding of names and message.
    pub fn encoding(&self) -> Option<&[u8]> {
        self.after(b"encoding ")
    }

    /// Returns the tree of a commit.
    ///
    /// # Errors
    /// `Unreadable` for an object that fsck would have refused.
    pub fn tree(&self) -> Result<Oid, GitError> {
        self.id_after(b"tree ")
    }

    /// Returns what a tag points to.
    ///
    /// # Errors
    /// As [`ObjectHead::tree`].
    pub fn target(&self) -> Result<Oid, GitError> {
        self.id_after(b"object ")
    }

    /// Returns the object id in the header line that begins with `word`.
    fn id_after(&self, word: &[u8]) -> Result<Oid, GitError> {
        self.after(word).and_then(full_id).ok_or(GitError::Unreadable { what: "the commit or tag" })
    }
}

/// Parses an object id of 40 hexadecimal digits.
pub fn full_id(text: &[u8]) -> Option<Oid> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    Oid::from_str(text).ok()
}

/// Returns a stream of the object in a pack of the folder `packs`; `None` if no pack has it, or as a delta only.
fn packed_stream(packs: &Path, id: Oid) -> io::Result<Option<impl Read + use<>>> {
    for file in fs::read_dir(packs)? {
        let path = file?.path();
        if path.extension().is_none_or(|extension| extension != "idx") {
            continue;
        }
        let pack = match PackFile::open(&path) {
            // Maintenance has replaced the pack.
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
