//! Files that are created, replaced, removed or moved: each call is one commit.

use std::collections::HashSet;

use git2::{ObjectType, Oid, Repository};

use super::{
    commit::{Draft, Prepared, Start},
    overlay::{FILE_MODE, Leaf, Overlay},
};
use crate::{
    error::GitError,
    name::BranchName,
    path::{TreePath, is_dot_gitattributes, is_dot_gitmodules},
    read::{
        Entry, EntryKind,
        contents::{MAX_INLINE, read_blob},
        submodule::{MAX_GITMODULES, Submodules},
    },
};

/// The largest file that can be written, in bytes.
pub const MAX_FILE: u64 = 50 << 20;
/// The files of one commit, and the bytes that they may have in all.
pub const MAX_FILES: usize = 1000;
/// See [`MAX_FILES`].
pub const MAX_ALL: u64 = 48 << 20;
/// The longest line of `.gitattributes` that git accepts.
const MAX_ATTRIBUTES_LINE: usize = 2048;

/// A file to write.
#[derive(Clone, Debug)]
pub struct PutFile {
    /// Where, from [`TreePath::strict`].
    pub path: TreePath,
    /// Its bytes.
    pub content: Vec<u8>,
    /// The blob it replaces, if the caller wants to be sure.
    pub expected_blob: Option<Oid>,
    /// The commit.
    pub draft: Draft,
}

/// A file to remove.
#[derive(Clone, Debug)]
pub struct DeleteFile {
    /// Where, from [`TreePath::strict`].
    pub path: TreePath,
    /// The blob it is, if the caller wants to be sure.
    pub expected_blob: Option<Oid>,
    /// The commit.
    pub draft: Draft,
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// There is none yet.
    Create(Vec<u8>),
    /// There is one, which gets these bytes.
    Update(Vec<u8>),
    /// There is one, which goes.
    Delete,
    /// There is one elsewhere, which comes here, with other bytes if any are given.
    Move(TreePath, Option<Vec<u8>>),
}

/// A change of one file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Where, from [`TreePath::strict`].
    pub path: TreePath,
    /// What becomes of it.
    pub operation: Operation,
    /// The blob that is there now, if the caller wants to be sure.
    pub expected_blob: Option<Oid>,
}

/// Several files to change.
#[derive(Clone, Debug)]
pub struct ChangeFiles {
    /// The changes: no path twice.
    pub files: Vec<FileChange>,
    /// The branch to make, if the draft's own is to stay where it is.
    pub new_branch: Option<BranchName>,
    /// The commit.
    pub draft: Draft,
}

/// How refusals name a file: by its place among several, or not at all.
#[derive(Clone, Copy)]
struct At(Option<usize>);

impl At {
    fn field(self, name: &str) -> String {
        self.0.map_or_else(|| name.to_owned(), |index| format!("files[{index}].{name}"))
    }

    fn refuse(self, name: &str, code: &'static str, message: &'static str) -> GitError {
        GitError::invalid(&self.field(name), code, message)
    }

    fn stale(self) -> GitError {
        self.0.map_or(GitError::StaleBlob, |index| GitError::StaleFile { index })
    }

    /// What is at a path, as a file that can be replaced. `name` is the field that the path came in.
    fn file(self, name: &str, overlay: &mut Overlay<'_>, path: &TreePath) -> Result<Option<Leaf>, GitError> {
        let found = overlay.find(path)?.map_err(|obstacle| self.refuse(name, "invalid", obstacle))?;
        let obstacle = match found.map(Leaf::kind) {
            None | Some(EntryKind::File) => return Ok(found),
            Some(EntryKind::Directory) => "is a directory",
            Some(EntryKind::Symlink) => "is a symbolic link",
            Some(EntryKind::Submodule) => "is a submodule",
        };
        Err(self.refuse(name, "invalid", obstacle))
    }

    fn check_blob(self, expected: Option<Oid>, found: Option<Leaf>) -> Result<(), GitError> {
        let is_stale = expected.is_some_and(|expected| found.is_none_or(|found| found.id != expected));
        if is_stale { Err(self.stale()) } else { Ok(()) }
    }

    /// Files that git itself reads must not be traps for those who clone; pushes are held to the same by git.
    fn check_special(self, path: &TreePath, content: &[u8]) -> Result<(), GitError> {
        let name = String::from_utf8_lossy(path.name());
        let is_large = content.len() as u64 > MAX_GITMODULES;
        if is_dot_gitmodules(&name) && (is_large || !Submodules::parse(content).is_harmless()) {
            return Err(self.refuse("content", "invalid", "names a submodule that git would refuse"));
        }
        let has_long_line = || content.split(|byte| *byte == b'\n').any(|line| line.len() >= MAX_ATTRIBUTES_LINE);
        if is_dot_gitattributes(&name) && has_long_line() {
            return Err(self.refuse("content", "invalid", "has a line that is longer than git accepts"));
        }
        Ok(())
    }

    /// Writes bytes to a path; the mode of what was there stays.
    fn write(self, work: &mut Work<'_>, path: &TreePath, content: &[u8], mode: i32) -> Result<(), GitError> {
        if content.len() as u64 > MAX_FILE {
            return Err(GitError::TooLarge { what: "the file", limit: MAX_FILE });
        }
        self.check_special(path, content)?;
        let id = Oid::hash_object(ObjectType::Blob, content)?;
        let leaf = Leaf { mode, id };
        // The bytes may be there already: then there is nothing to do, and perhaps nothing to commit.
        if work.overlay.find(path)? != Ok(Some(leaf)) {
            work.blobs.push(work.repo.blob(content)?);
            work.overlay.set(path, leaf)?;
        }
        work.note(path, id, content.len() as u64);
        Ok(())
    }
}

/// A commit in the making.
struct Work<'repo> {
    repo: &'repo Repository,
    overlay: Overlay<'repo>,
    blobs: Vec<Oid>,
    entries: Vec<Entry>,
}

impl<'repo> Work<'repo> {
    fn new(repo: &'repo Repository, start: &Start<'repo>) -> Result<Self, GitError> {
        Ok(Self { repo, overlay: start.overlay()?, blobs: Vec::new(), entries: Vec::new() })
    }

    fn note(&mut self, path: &TreePath, id: Oid, size: u64) {
        self.entries.push(Entry {
            kind: EntryKind::File,
            name: path.name().to_vec(),
            path: path.as_bytes().to_vec(),
            id,
            size,
            content: None,
            submodule_url: None,
        });
    }
}

/// Creates or replaces one file; everything it adds is on disk when it returns. The caller holds the repository's write lock.
///
/// Errors: `Invalid` (field `path`, `content` or `message`), `UnchangedContent`, `StaleBlob`, `TooLarge`.
pub fn put_file(repo: &Repository, put: &PutFile) -> Result<Prepared, GitError> {
    let at = At(None);
    let start = Start::find(repo, &put.draft, None)?;
    let mut work = Work::new(repo, &start)?;
    let found = at.file("path", &mut work.overlay, &put.path)?;
    at.check_blob(put.expected_blob, found)?;
    at.write(&mut work, &put.path, &put.content, found.map_or(FILE_MODE, |found| found.mode))?;
    for entry in &mut work.entries {
        entry.content = (entry.size <= MAX_INLINE).then(|| put.content.clone());
    }
    start.commit(&put.draft, &work.overlay, work.blobs, work.entries)
}

/// Removes one file or symbolic link, and the directories that are empty then. Otherwise as [`put_file`].
///
/// Errors: `Invalid` (field `path` or `message`), `PathNotFound`, `StaleBlob`.
pub fn delete_file(repo: &Repository, delete: &DeleteFile) -> Result<Prepared, GitError> {
    let at = At(None);
    let start = Start::find(repo, &delete.draft, None)?;
    let mut work = Work::new(repo, &start)?;
    match removable(at, &mut work.overlay, &delete.path)? {
        None => return Err(GitError::PathNotFound),
        found => at.check_blob(delete.expected_blob, found)?,
    }
    work.overlay.remove(&delete.path)?;
    start.commit(&delete.draft, &work.overlay, work.blobs, work.entries)
}

/// What is at a path that is to be removed: a link itself may go, whatever it points to.
fn removable(at: At, overlay: &mut Overlay<'_>, path: &TreePath) -> Result<Option<Leaf>, GitError> {
    match overlay.find(path)? {
        // Nothing can be below what is no directory.
        Err(_) => Ok(None),
        Ok(Some(leaf)) if leaf.kind() == EntryKind::Symlink => Ok(Some(leaf)),
        Ok(_) => at.file("path", overlay, path),
    }
}

/// Changes several files. Otherwise as [`put_file`].
///
/// Errors: `Invalid` (fields `files`, `files[0].path` and so on, `message`, `new_branch`), `BranchNotFound`, `UnchangedContent`,
/// `StaleFile`, `TooLarge`.
pub fn change_files(repo: &Repository, change: &ChangeFiles) -> Result<Prepared, GitError> {
    check_files(&change.files)?;
    let start = Start::find(repo, &change.draft, change.new_branch.as_ref())?;
    let mut work = Work::new(repo, &start)?;
    // Removals first: what they leave is free for the others, in whatever order they come.
    let mut moved = Vec::with_capacity(change.files.len());
    for (index, file) in change.files.iter().enumerate() {
        moved.push(take_away(At(Some(index)), &mut work, file)?);
    }
    for ((index, file), moved) in change.files.iter().enumerate().zip(moved) {
        put_there(At(Some(index)), &mut work, file, moved)?;
    }
    start.commit(&change.draft, &work.overlay, work.blobs, work.entries)
}

/// Removes what a change removes; returns the file that it moves.
fn take_away(at: At, work: &mut Work<'_>, file: &FileChange) -> Result<Option<Leaf>, GitError> {
    let (name, path) = match &file.operation {
        Operation::Create(_) | Operation::Update(_) => return Ok(None),
        Operation::Delete => ("path", &file.path),
        Operation::Move(from, _) => ("from_path", from),
    };
    let found = match &file.operation {
        Operation::Delete => removable(at, &mut work.overlay, path)?,
        Operation::Create(_) | Operation::Update(_) | Operation::Move(..) => at.file(name, &mut work.overlay, path)?,
    };
    at.check_blob(file.expected_blob, found)?;
    if found.is_none() {
        return Err(at.refuse(name, "invalid", "does not exist"));
    }
    work.overlay.remove(path)?;
    Ok(found)
}

/// Writes what a change writes.
fn put_there(at: At, work: &mut Work<'_>, file: &FileChange, moved: Option<Leaf>) -> Result<(), GitError> {
    if file.operation == Operation::Delete {
        return Ok(());
    }
    let found = at.file("path", &mut work.overlay, &file.path)?;
    match (&file.operation, found, moved) {
        (Operation::Create(_) | Operation::Move(..), Some(_), _) => Err(at.refuse("path", "invalid", "exists already")),
        (Operation::Create(content), None, _) => at.write(work, &file.path, content, FILE_MODE),
        (Operation::Update(content), found, _) => {
            at.check_blob(file.expected_blob, found)?;
            let found = found.ok_or_else(|| at.refuse("path", "invalid", "does not exist"))?;
            at.write(work, &file.path, content, found.mode)
        }
        (Operation::Move(_, Some(content)), None, moved) => {
            at.write(work, &file.path, content, moved.map_or(FILE_MODE, |moved| moved.mode))
        }
        (Operation::Move(_, None), None, Some(moved)) => {
            // Its bytes matter only where git itself will read them.
            let limit = if is_special(&file.path) { MAX_GITMODULES } else { 0 };
            let (size, content) = read_blob(work.repo, &work.repo.odb()?, moved.id, limit)?;
            if let Some(content) = content {
                at.check_special(&file.path, &content)?;
            } else if is_special(&file.path) {
                return Err(at.refuse("path", "invalid", "would make a large file one that git reads"));
            }
            work.overlay.set(&file.path, moved)?;
            work.note(&file.path, moved.id, size);
            Ok(())
        }
        (Operation::Delete, ..) | (Operation::Move(_, None), None, None) => Ok(()),
    }
}

fn is_special(path: &TreePath) -> bool {
    let name = String::from_utf8_lossy(path.name());
    is_dot_gitmodules(&name) || is_dot_gitattributes(&name)
}

/// What can be refused without looking at the repository.
fn check_files(files: &[FileChange]) -> Result<(), GitError> {
    if files.is_empty() {
        return Err(GitError::invalid("files", "required", "must not be empty"));
    }
    if files.len() > MAX_FILES {
        return Err(GitError::invalid("files", "too_long", "must not be more than 1000"));
    }
    let size = |file: &FileChange| match &file.operation {
        Operation::Create(content) | Operation::Update(content) | Operation::Move(_, Some(content)) => content.len(),
        Operation::Delete | Operation::Move(_, None) => 0,
    };
    if files.iter().map(size).sum::<usize>() as u64 > MAX_ALL {
        return Err(GitError::TooLarge { what: "the content of all files", limit: MAX_ALL });
    }
    let mut seen = HashSet::new();
    for (index, file) in files.iter().enumerate() {
        let from = match &file.operation {
            Operation::Move(from, _) => Some(("from_path", from)),
            Operation::Create(_) | Operation::Update(_) | Operation::Delete => None,
        };
        for (name, path) in [Some(("path", &file.path)), from].into_iter().flatten() {
            if !seen.insert(path.as_bytes()) {
                return Err(At(Some(index)).refuse(name, "invalid", "is named twice"));
            }
        }
    }
    Ok(())
}
