//! Commits, tags and trees within their limits. The size of an object is read before the object, so that one that is larger, from times
//! without limits, is never in memory. Of a larger commit or tag the fields and the beginning of the message can be read.
//!
//! Not here: blobs (`read::entry`).

use std::{
    cell::RefCell,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use git2::{Commit, ObjectType, Oid, Repository, Tag, Tree};

use crate::{
    git::pack_file::{PackFile, PackedKind},
    types::{
        error::GitError,
        limits::{MAX_COMMIT_BYTES, MAX_COMMIT_PARENTS, MAX_TREE_BYTES},
    },
};

/// Bytes of an object that are read for its fields. One with a longer header has none.
const MAX_SCANNED_BYTES: u64 = 64 << 20;
/// Maximum length of a chain of tags that point to tags.
pub(super) const MAX_TAG_DEPTH: usize = 1000;
/// Longest line of a header that is kept, in bytes.
const MAX_LINE_BYTES: u64 = 4096;
/// Lines of a header that are kept, by their first words.
const KEPT_LINES: [&[u8]; 7] = [b"tree ", b"author ", b"committer ", b"object ", b"type ", b"tag ", b"tagger "];

/// Headers that a thread remembers, by the first bytes of the object ids.
const REMEMBERED_HEADERS: usize = 1024;

/// The type and the size in bytes of an object.
pub(crate) type Header = (ObjectType, u64);

thread_local! {
    static HEADERS: RefCell<Vec<Option<(Oid, Header)>>> = RefCell::new(vec![None; REMEMBERED_HEADERS]);
}

/// Reads the header of an object. The next [`header`] of it need not.
///
/// # Errors
/// Those of libgit2.
pub(crate) fn read_header(repo: &Repository, id: Oid) -> Result<Header, git2::Error> {
    let (size, kind) = repo.odb()?.read_header(id)?;
    HEADERS.with_borrow_mut(|headers| headers[slot(id)] = Some((id, (kind, size as u64))));
    Ok((kind, size as u64))
}

/// Returns the header of an object that is to be read, perhaps as this thread remembers it: an id is the hash of type, size and content, so
/// the object has the same header in every repository. Whether it is in this one is known once it is read.
///
/// # Errors
/// Those of libgit2.
pub(crate) fn header(repo: &Repository, id: Oid) -> Result<Header, git2::Error> {
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

/// Returns a commit.
///
/// # Errors
/// `TooLarge` above [`MAX_COMMIT_BYTES`], and those of libgit2.
pub(crate) fn find_commit(repo: &Repository, id: Oid) -> Result<Commit<'_>, GitError> {
    check_size(repo, id, ObjectType::Commit)?;
    Ok(repo.find_commit(id)?)
}

/// Returns a tag object.
///
/// # Errors
/// As [`find_commit`].
pub(crate) fn find_tag(repo: &Repository, id: Oid) -> Result<Tag<'_>, GitError> {
    check_size(repo, id, ObjectType::Tag)?;
    Ok(repo.find_tag(id)?)
}

/// Returns a tree.
///
/// # Errors
/// `TooLarge` above [`MAX_TREE_BYTES`], and those of libgit2.
pub(crate) fn find_tree(repo: &Repository, id: Oid) -> Result<Tree<'_>, GitError> {
    sized_tree(repo, id).map(|(tree, _)| tree)
}

/// Returns a tree and its size in bytes, as it is stored.
///
/// # Errors
/// As [`find_tree`].
pub(crate) fn sized_tree(repo: &Repository, id: Oid) -> Result<(Tree<'_>, u64), GitError> {
    let size = check_size(repo, id, ObjectType::Tree)?;
    Ok((repo.find_tree(id)?, size))
}

/// Returns the id of a commit's tree.
///
/// # Errors
/// `TooLarge` for a commit whose fields cannot be read, and those of libgit2.
pub(crate) fn tree_id(repo: &Repository, commit: Oid) -> Result<Oid, GitError> {
    match find_commit(repo, commit) {
        Ok(commit) => Ok(commit.tree_id()),
        Err(error @ GitError::TooLarge { .. }) => {
            let head = ObjectHead::read(repo, commit, 0)?;
            head.and_then(|head| head.id_after(b"tree ")).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Returns the tree of a commit.
///
/// # Errors
/// `TooLarge`, and those of libgit2.
pub(crate) fn tree_of(repo: &Repository, commit: Oid) -> Result<Tree<'_>, GitError> {
    find_tree(repo, tree_id(repo, commit)?)
}

/// Returns the id of the object that a tag object points to.
///
/// # Errors
/// `TooLarge` for a tag whose fields cannot be read, and those of libgit2.
pub(crate) fn tag_target(repo: &Repository, tag: Oid) -> Result<Oid, GitError> {
    match find_tag(repo, tag) {
        Ok(tag) => Ok(tag.target_id()),
        Err(error @ GitError::TooLarge { .. }) => {
            let head = ObjectHead::read(repo, tag, 0)?;
            head.and_then(|head| head.id_after(b"object ")).ok_or(error)
        }
        Err(error) => Err(error),
    }
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

/// The fields of a commit or tag of any size, and the beginning of its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectHead {
    /// The lines of [`KEPT_LINES`], each cut at [`MAX_LINE_BYTES`].
    lines: Vec<Vec<u8>>,
    /// The first parents of a commit.
    pub(crate) parents: Vec<Oid>,
    /// The beginning of the message.
    pub(crate) message: Vec<u8>,
}

impl ObjectHead {
    /// Reads the fields of an object as a stream, and up to `max_message_bytes` of its message; `None` for one that is stored as a
    /// delta, which cannot be read in part.
    ///
    /// # Errors
    /// Those of libgit2, and `Io`.
    pub(crate) fn read(repo: &Repository, id: Oid, max_message_bytes: usize) -> Result<Option<Self>, GitError> {
        let odb = repo.odb()?;
        // libgit2 streams objects that are in files of their own, and no others.
        if let Ok((stream, ..)) = odb.reader(id) {
            return Self::parse(stream, max_message_bytes).map(Some).map_err(GitError::io("reading an object"));
        }
        let packed = packed_stream(&repo.path().join("objects/pack"), id).map_err(GitError::io("reading a pack"))?;
        let head = packed.map(|stream| Self::parse(stream, max_message_bytes)).transpose();
        head.map_err(GitError::io("reading an object of a pack"))
    }

    fn parse(stream: impl Read, max_message_bytes: usize) -> io::Result<Self> {
        let mut stream = BufReader::new(stream.take(MAX_SCANNED_BYTES));
        let mut head = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut stream).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            match line.as_slice() {
                // The end of the object.
                b"" => return Ok(head),
                b"\n" => break,
                _ => {}
            }
            if line.last() != Some(&b'\n') {
                stream.skip_until(b'\n')?;
            }
            head.add(line.strip_suffix(b"\n").unwrap_or(&line));
        }
        stream.take(max_message_bytes as u64).read_to_end(&mut head.message)?;
        Ok(head)
    }

    fn add(&mut self, line: &[u8]) {
        if let Some(parent) = line.strip_prefix(b"parent ") {
            if self.parents.len() < MAX_COMMIT_PARENTS {
                self.parents.extend(full_id(parent));
            }
        } else if let Some(word) = KEPT_LINES.iter().find(|word| line.starts_with(word))
            && self.after(word).is_none()
        {
            self.lines.push(line.to_vec());
        }
    }

    /// Returns the rest of the header line that begins with `word`, a word of [`KEPT_LINES`].
    pub(crate) fn after(&self, word: &[u8]) -> Option<&[u8]> {
        self.lines.iter().find_map(|line| line.strip_prefix(word))
    }

    /// Returns the object id in the header line that begins with `word`.
    pub(crate) fn id_after(&self, word: &[u8]) -> Option<Oid> {
        self.after(word).and_then(full_id)
    }
}

/// Parses an object id of 40 hexadecimal digits.
pub(crate) fn full_id(text: &[u8]) -> Option<Oid> {
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
