//! Reads the file, symbolic link, submodule or directory at a path. Never follows symbolic links.

use git2::{Oid, Repository, Tree};

use super::{
    entry::{EntryKind, read_blob},
    submodule::Submodules,
};
use crate::{
    repo::{
        deltas::LoadCheck,
        objects, refs,
        revision::{Resolved, Revision},
        text::{json_bytes, url_bytes},
    },
    types::{error::GitError, path::TreePath},
};

/// Largest file whose content is part of a response, in bytes.
pub const MAX_INLINE_BYTES: u64 = 1 << 20;

/// Maximum size of all file contents in one response, in bytes.
pub const MAX_RESPONSE_BYTES: u64 = 8 << 20;

/// Maximum number of entries in a directory listing.
pub const MAX_ENTRIES: usize = 20_000;
/// Longest directory list in JSON, in bytes.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Bytes of an entry in JSON besides its path, with URLs of usual length.
const ENTRY_BYTES: u64 = 700;
/// Copies of the path in the URLs of an entry.
const PATH_COPIES: u64 = 5;

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kind.
    pub kind: EntryKind,
    /// The last component of the path.
    pub name: Vec<u8>,
    /// The path from the root of the tree.
    pub path: Vec<u8>,
    /// Id of the blob or tree, or of the submodule's commit.
    pub id: Oid,
    /// Size of the blob in bytes; zero for directories and submodules.
    pub size: u64,
    /// The content of the blob; `None` if it is too large or the response is full.
    pub content: Option<Vec<u8>>,
    /// The URL of the submodule, if `.gitmodules` has one.
    pub submodule_url: Option<String>,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, symbolic link or submodule.
    Entry(Entry),
    /// The entries of a directory, in git's order.
    Directory(Vec<Entry>),
}

/// The target of a path in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The commit; absent for the root of an empty repository.
    pub commit: Option<Oid>,
    /// Name of the commit for links: a branch, a tag, or its id.
    pub display_ref: Vec<u8>,
    /// The target of the path.
    pub target: Target,
}

/// Reads `path` in the commit that `revision` names.
///
/// # Errors
/// `RevisionNotFound`, `PathNotFound`, and `TooLarge` for a directory with too many entries or too
/// long a list.
pub fn contents(repo: &Repository, revision: &Revision, path: &TreePath) -> Result<Contents, GitError> {
    let resolved = match revision.resolve(repo) {
        Err(GitError::RevisionNotFound) => return empty(repo, revision, path),
        resolved => resolved?,
    };
    let Resolved { commit, .. } = resolved;
    let root = objects::tree_of(repo, commit)?;
    let display_ref = resolved.display();
    let target = at_path(repo, &root, path, ResponseSize::new(&display_ref))?;
    Ok(Contents { commit: Some(commit), display_ref, target })
}

/// Returns an empty directory for the root of a repository without commits.
fn empty(repo: &Repository, revision: &Revision, path: &TreePath) -> Result<Contents, GitError> {
    if !is_unborn(repo, revision)? {
        return Err(GitError::RevisionNotFound);
    }
    if !path.is_root() {
        return Err(GitError::PathNotFound);
    }
    let display_ref = refs::head(repo)?.branch.as_bytes().to_vec();
    Ok(Contents { commit: None, display_ref, target: Target::Directory(Vec::new()) })
}

/// Returns whether `revision` is the default branch of a repository without branches.
pub(super) fn is_unborn(repo: &Repository, revision: &Revision) -> Result<bool, GitError> {
    let head = refs::head(repo)?;
    let is_head = *revision == Revision::parse(b"")? || *revision == Revision::parse(head.branch.as_bytes())?;
    Ok(is_head && refs::is_empty(repo)?)
}

fn at_path(repo: &Repository, root: &Tree<'_>, path: &TreePath, size: ResponseSize) -> Result<Target, GitError> {
    let mut reader =
        EntryReader { loads: LoadCheck::new(repo), root, submodules: None, size, budget: MAX_RESPONSE_BYTES };
    if path.is_root() {
        return reader.directory(root, path).map(Target::Directory);
    }
    let (mode, id) = find(repo, root, path)?.ok_or(GitError::PathNotFound)?;
    if EntryKind::of(mode) == EntryKind::Directory {
        return reader.directory(&objects::find_tree(repo, id)?, path).map(Target::Directory);
    }
    reader.entry(mode, id, path.name(), path.as_bytes().to_vec()).map(Target::Entry)
}

/// Returns mode and id of the entry at `path`, if it exists.
pub fn find(repo: &Repository, root: &Tree<'_>, path: &TreePath) -> Result<Option<(i32, Oid)>, GitError> {
    let mut tree = root.clone();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Some(entry) = tree.get_name_bytes(part) else { return Ok(None) };
        let (mode, id) = (objects::entry_mode(&entry), entry.id());
        if parts.peek().is_none() {
            return Ok(Some((mode, id)));
        }
        if EntryKind::of(mode) != EntryKind::Directory {
            return Ok(None);
        }
        drop(entry);
        tree = objects::find_tree(repo, id)?;
    }
    Ok(None)
}

struct EntryReader<'repo> {
    loads: LoadCheck<'repo>,
    root: &'repo Tree<'repo>,
    /// `.gitmodules`, read at the first submodule.
    submodules: Option<Submodules>,
    size: ResponseSize,
    /// Content bytes left in the response.
    budget: u64,
}

/// Size of a response in JSON. Every entry has its path and the revision in several URLs.
#[derive(Clone, Copy, Debug)]
struct ResponseSize {
    entry_bytes: u64,
}

impl ResponseSize {
    fn new(revision: &[u8]) -> Self {
        Self { entry_bytes: ENTRY_BYTES + PATH_COPIES * url_bytes(revision) as u64 }
    }

    fn of_entry(self, path: &[u8]) -> u64 {
        self.entry_bytes + PATH_COPIES * url_bytes(path) as u64 + 2 * json_bytes(path) as u64
    }
}

impl EntryReader<'_> {
    fn directory(&mut self, tree: &Tree<'_>, path: &TreePath) -> Result<Vec<Entry>, GitError> {
        if tree.len() > MAX_ENTRIES {
            let what = "the number of entries in the folder (use git/trees)";
            return Err(GitError::TooLarge { what, limit: MAX_ENTRIES as u64 });
        }
        let sizes = tree.iter().map(|entry| self.size.of_entry(path.join(entry.name_bytes()).as_slice()));
        let Some(left) = MAX_JSON_BYTES.checked_sub(sizes.sum()) else {
            let what = "the size of the folder listing (use git/trees)";
            return Err(GitError::TooLarge { what, limit: MAX_JSON_BYTES });
        };
        // Base64 turns three bytes into four.
        self.budget = self.budget.min(left / 4 * 3);
        tree.iter()
            .map(|entry| {
                let name = entry.name_bytes();
                self.entry(objects::entry_mode(&entry), entry.id(), name, path.join(name))
            })
            .collect()
    }

    fn entry(&mut self, mode: i32, id: Oid, name: &[u8], path: Vec<u8>) -> Result<Entry, GitError> {
        let kind = EntryKind::of(mode);
        let mut entry = Entry { kind, name: name.to_vec(), path, id, size: 0, content: None, submodule_url: None };
        match kind {
            EntryKind::Directory => {}
            EntryKind::Submodule => {
                let submodules = match &mut self.submodules {
                    Some(submodules) => submodules,
                    none => none.insert(Submodules::read(&self.loads, self.root)?),
                };
                entry.submodule_url = submodules.url(&entry.path).map(str::to_owned);
            }
            EntryKind::File | EntryKind::Symlink => {
                let (size, content) = read_blob(&self.loads, id, MAX_INLINE_BYTES.min(self.budget))?;
                let cost = |content: &Vec<u8>| match kind {
                    // Link targets are sent as text, not as base64.
                    EntryKind::Symlink => json_bytes(content) / 4 * 3,
                    EntryKind::File | EntryKind::Directory | EntryKind::Submodule => content.len(),
                };
                self.budget = self.budget.saturating_sub(content.as_ref().map_or(0, cost) as u64);
                (entry.size, entry.content) = (size, content);
            }
        }
        Ok(entry)
    }
}
