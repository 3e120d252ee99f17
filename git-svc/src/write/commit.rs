//! One file, one commit: blob, changed trees and commit, made durable. The ref is the caller's to move.

use git2::{ObjectType, Oid, Repository, Tree};

use super::{durable::sync_objects, signature::Author};
use crate::{
    error::GitError,
    name::BranchName,
    path::{TreePath, is_dot_gitattributes, is_dot_gitmodules},
    read::{
        CommitInfo, Entry, EntryKind, commit_info,
        contents::MAX_INLINE,
        submodule::{MAX_GITMODULES, Submodules},
    },
    refs::{self, Edit},
};

/// The largest file that can be written, in bytes.
pub const MAX_FILE: u64 = 50 << 20;

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The longest line of `.gitattributes` that git accepts.
const MAX_ATTRIBUTES_LINE: usize = 2048;

const FILE_MODE: i32 = 0o100_644;
const DIRECTORY_MODE: i32 = 0o040_000;

/// A file to write.
#[derive(Clone, Debug)]
pub struct PutFile {
    /// Where, from [`TreePath::strict`].
    pub path: TreePath,
    /// Its bytes.
    pub content: Vec<u8>,
    /// The commit message.
    pub message: String,
    /// The branch; absent for the default branch. One that does not exist starts at the default branch.
    pub branch: Option<BranchName>,
    /// The blob it replaces, if the caller wants to be sure.
    pub expected_blob: Option<Oid>,
    /// Who makes the commit.
    pub author: Author,
}

/// A commit that is on disk and that no ref points to yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The branch to move.
    pub branch: BranchName,
    /// Where the branch is; absent if it does not exist.
    pub old: Option<Oid>,
    /// The commit.
    pub new_commit: Oid,
    /// The file as it is in the commit.
    pub entry: Entry,
    /// What the commit says.
    pub commit: CommitInfo,
}

impl Prepared {
    /// The change that makes the commit visible.
    #[must_use]
    pub fn edit(&self) -> Edit {
        Edit { name: self.branch.to_ref(), old: self.old, new: Some(self.new_commit) }
    }
}

/// Makes the commit; everything it adds is on disk when it returns. The caller holds the repository's write lock.
///
/// Errors: `Invalid` (field `path`, `content` or `message`), `UnchangedContent`, `StaleBlob`, `TooLarge`.
pub fn put_file(repo: &Repository, put: &PutFile) -> Result<Prepared, GitError> {
    check(put)?;
    let head = refs::head(repo)?;
    let branch = put.branch.clone().unwrap_or_else(|| head.branch.clone());
    let old = refs::lookup(repo, &branch.to_ref())?;
    let base = old.or(head.tip).map(|tip| repo.find_commit(tip)).transpose()?;
    let root = base.as_ref().map(git2::Commit::tree).transpose()?;
    let levels = descend(repo, root, &put.path)?;
    let mode = replaced(&levels, put)?;

    let mut written = Vec::new();
    let blob = repo.blob(&put.content)?;
    written.push(blob);
    let tree = write_trees(repo, &levels, &put.path, blob, mode, &mut written)?;
    let signature = put.author.signature()?;
    let parents: Vec<_> = base.iter().collect();
    let new_commit = repo.commit(None, &signature, &signature, &put.message, &repo.find_tree(tree)?, &parents)?;
    written.push(new_commit);
    sync_objects(repo.path(), &written)?;

    let size = put.content.len() as u64;
    let entry = Entry {
        kind: EntryKind::File,
        name: put.path.name().to_vec(),
        path: put.path.as_bytes().to_vec(),
        id: blob,
        size,
        content: (size <= MAX_INLINE).then(|| put.content.clone()),
        submodule_url: None,
    };
    Ok(Prepared { branch, old, new_commit, entry, commit: commit_info(repo, new_commit)? })
}

/// What can be refused without looking at the repository.
fn check(put: &PutFile) -> Result<(), GitError> {
    if put.content.len() as u64 > MAX_FILE {
        return Err(GitError::TooLarge { what: "the file", limit: MAX_FILE });
    }
    if put.message.trim().is_empty() {
        return Err(GitError::invalid("message", "required", "must not be empty"));
    }
    if put.message.len() > MAX_MESSAGE {
        return Err(GitError::invalid("message", "too_long", "is too long"));
    }
    if put.message.contains('\0') {
        return Err(GitError::invalid("message", "invalid", "must not hold a NUL"));
    }
    if put.path.is_root() {
        return Err(GitError::invalid("path", "required", "must not be empty"));
    }
    check_special(put)
}

/// Files that git itself reads must not be traps for those who clone; pushes are held to the same by git.
fn check_special(put: &PutFile) -> Result<(), GitError> {
    let name = String::from_utf8_lossy(put.path.name()).into_owned();
    if is_dot_gitmodules(&name) {
        let is_small = put.content.len() as u64 <= MAX_GITMODULES;
        if !is_small || !Submodules::parse(&put.content).is_harmless() {
            return Err(GitError::invalid("content", "invalid", "names a submodule that git would refuse"));
        }
    }
    let has_long_line = || put.content.split(|byte| *byte == b'\n').any(|line| line.len() >= MAX_ATTRIBUTES_LINE);
    if is_dot_gitattributes(&name) && has_long_line() {
        return Err(GitError::invalid("content", "invalid", "has a line that is longer than git accepts"));
    }
    Ok(())
}

/// The trees from the root to the file's directory; absent ones are to be made.
fn descend<'repo>(
    repo: &'repo Repository,
    root: Option<Tree<'repo>>,
    path: &TreePath,
) -> Result<Vec<Option<Tree<'repo>>>, GitError> {
    let parents = path.components().count() - 1;
    let mut levels = vec![root];
    for part in path.components().take(parents) {
        let found = levels.last().and_then(Option::as_ref).and_then(|tree| tree.get_name_bytes(part));
        let next = match found.map(|entry| (EntryKind::of(entry.filemode()), entry.id())) {
            None => None,
            Some((EntryKind::Directory, id)) => Some(repo.find_tree(id)?),
            Some((EntryKind::File, _)) => return Err(GitError::invalid("path", "invalid", "leads through a file")),
            Some((EntryKind::Symlink, _)) => {
                return Err(GitError::invalid("path", "invalid", "leads through a symbolic link"));
            }
            Some((EntryKind::Submodule, _)) => {
                return Err(GitError::invalid("path", "invalid", "leads into a submodule"));
            }
        };
        levels.push(next);
    }
    Ok(levels)
}

/// Checks what is at the path now; returns the mode of the file to be.
fn replaced(levels: &[Option<Tree<'_>>], put: &PutFile) -> Result<i32, GitError> {
    let directory = levels.last().and_then(Option::as_ref);
    let Some(entry) = directory.and_then(|tree| tree.get_name_bytes(put.path.name())) else {
        return if put.expected_blob.is_some() { Err(GitError::StaleBlob) } else { Ok(FILE_MODE) };
    };
    let kind = match EntryKind::of(entry.filemode()) {
        EntryKind::File => None,
        EntryKind::Directory => Some("is a directory"),
        EntryKind::Symlink => Some("is a symbolic link"),
        EntryKind::Submodule => Some("is a submodule"),
    };
    if let Some(message) = kind {
        return Err(GitError::invalid("path", "invalid", message));
    }
    if put.expected_blob.is_some_and(|expected| expected != entry.id()) {
        return Err(GitError::StaleBlob);
    }
    if Oid::hash_object(ObjectType::Blob, &put.content)? == entry.id() {
        return Err(GitError::UnchangedContent);
    }
    Ok(entry.filemode())
}

/// Writes the trees from the file's directory up to the root; returns the root's id.
fn write_trees(
    repo: &Repository,
    levels: &[Option<Tree<'_>>],
    path: &TreePath,
    blob: Oid,
    mode: i32,
    written: &mut Vec<Oid>,
) -> Result<Oid, GitError> {
    let (mut child, mut mode) = (blob, mode);
    // Upwards: the deepest tree holds the file, each other one the tree below it.
    for (level, name) in levels.iter().rev().zip(path.components().rev()) {
        let mut builder = repo.treebuilder(level.as_ref())?;
        builder.insert(name, child, mode)?;
        child = builder.write()?;
        mode = DIRECTORY_MODE;
        written.push(child);
    }
    Ok(child)
}
