//! Creates, replaces, removes and moves files. Each call makes one commit.

use std::collections::HashSet;

use bytes::Bytes;
use git2::{ObjectType, Oid, Repository};

use super::{
    commit::{CommitBase, CommitDraft, EntryPrecondition, PreparedCommit, Written},
    overlay::{FILE_MODE, Overlay, TreeEntry},
};
use crate::{
    disk::loose_objects::NewObject,
    repo::{
        deltas::LoadCheck,
        read::{
            Entry, EntryKind,
            contents::find,
            entry::read_blob,
            submodule::{MAX_GITMODULES, Submodules},
        },
    },
    types::{
        error::GitError,
        limits::MAX_FILE_BYTES,
        name::check_new_name,
        path::{TreePath, is_dot_gitattributes, is_dot_gitmodules},
    },
};

/// Maximum number of files per commit.
pub const MAX_FILES: usize = 1000;
/// Maximum size of all files in a commit, in bytes.
pub const MAX_COMMIT_BYTES: u64 = 48 << 20;
/// Lines of `.gitattributes` with this many bytes are too long for git.
const MAX_ATTRIBUTES_LINE: usize = 2048;

/// A file to create, replace or move.
#[derive(Clone, Debug)]
pub struct PutFile {
    /// The change, which is not a deletion.
    pub file: FileChange,
    /// Message and branch of the commit.
    pub draft: CommitDraft,
}

/// A file to remove.
#[derive(Clone, Debug)]
pub struct DeleteFile {
    /// The path, from [`TreePath::strict`].
    pub path: TreePath,
    /// The blob that must be at the path, if any is required.
    pub expected_blob: Option<Oid>,
    /// Message and branch of the commit.
    pub draft: CommitDraft,
}

/// The operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create a file with this content. It must not exist.
    Create(Bytes),
    /// Replace the content of an existing file.
    Update(Bytes),
    /// Create a file with this content, or replace that of an existing one.
    Put(Bytes),
    /// Delete an existing file.
    Delete,
    /// Move an existing file here from this path, with new content if given.
    Move(TreePath, Option<Bytes>),
}

impl Operation {
    /// Returns the new content, if there is one.
    fn content(&self) -> Option<&Bytes> {
        match self {
            Self::Create(content) | Self::Update(content) | Self::Put(content) => Some(content),
            Self::Move(_, content) => content.as_ref(),
            Self::Delete => None,
        }
    }
}

/// A change of one file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// The path, from [`TreePath::strict`].
    pub path: TreePath,
    /// The operation on the file.
    pub operation: Operation,
    /// The blob that must be at the path (before a move, at the old path), if any is required.
    /// Ignored by `Create`.
    pub expected_blob: Option<Oid>,
}

/// Changes of several files in one commit.
#[derive(Clone, Debug)]
pub struct ChangeFiles {
    /// The changes. No path may occur twice.
    pub files: Vec<FileChange>,
    /// Message and branch of the commit.
    pub draft: CommitDraft,
}

/// Prefix of a file's fields in errors, with its index if there are several files.
#[derive(Clone, Copy)]
struct FieldPath(Option<usize>);

impl FieldPath {
    fn field(self, name: &str) -> String {
        self.0.map_or_else(|| name.to_owned(), |index| format!("files[{index}].{name}"))
    }

    fn refuse(self, name: &str, code: &'static str, message: &'static str) -> GitError {
        GitError::invalid(&self.field(name), code, message)
    }

    fn stale(self) -> GitError {
        self.0.map_or(GitError::StaleBlob, |index| GitError::StaleFile { index })
    }

    /// Returns the file at a path, if any. Fails if something else is there. `name` is the field of
    /// the path.
    fn file(self, name: &str, overlay: &mut Overlay<'_>, path: &TreePath) -> Result<Option<TreeEntry>, GitError> {
        let found = overlay.find(path)?.map_err(|obstacle| self.refuse(name, "invalid", obstacle))?;
        let obstacle = match found.map(TreeEntry::kind) {
            None | Some(EntryKind::File) => return Ok(found),
            Some(EntryKind::Directory) => "is a directory",
            Some(EntryKind::Symlink) => "is a symbolic link",
            Some(EntryKind::Submodule) => "is a submodule",
        };
        Err(self.refuse(name, "invalid", obstacle))
    }

    fn check_blob(self, expected: Option<Oid>, found: Option<TreeEntry>) -> Result<(), GitError> {
        let is_stale = expected.is_some_and(|expected| found.is_none_or(|found| found.id != expected));
        if is_stale { Err(self.stale()) } else { Ok(()) }
    }

    /// Checks files that git itself reads and that could harm a clone. For pushes, git does.
    fn check_special(self, path: &TreePath, content: &[u8]) -> Result<(), GitError> {
        let name = String::from_utf8_lossy(path.name());
        let is_large = content.len() as u64 > MAX_GITMODULES;
        if is_dot_gitmodules(&name) && (is_large || !Submodules::parse(content).is_harmless()) {
            return Err(self.refuse("content", "invalid", "contains a submodule that git would reject"));
        }
        let has_long_line = || content.split(|byte| *byte == b'\n').any(|line| line.len() >= MAX_ATTRIBUTES_LINE);
        if is_dot_gitattributes(&name) && has_long_line() {
            return Err(self.refuse("content", "invalid", "has a line that is too long for git"));
        }
        Ok(())
    }

    fn write(
        self,
        builder: &mut CommitBuilder<'_>,
        path: &TreePath,
        content: &Bytes,
        mode: i32,
    ) -> Result<(), GitError> {
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(GitError::TooLarge { what: "the file", limit: MAX_FILE_BYTES });
        }
        self.check_special(path, content)?;
        let blob = NewObject::new(ObjectType::Blob, content.clone())?;
        let id = blob.id();
        let entry = TreeEntry { mode, id };
        // With unchanged content there is nothing to write.
        if builder.overlay.find(path)? != Ok(Some(entry)) {
            builder.written.blobs.push(blob);
            builder.overlay.set(path, entry)?;
        }
        builder.add_entry(path, id, content.len() as u64);
        Ok(())
    }
}

struct CommitBuilder<'repo> {
    loads: LoadCheck<'repo>,
    overlay: Overlay<'repo>,
    written: Written,
}

impl<'repo> CommitBuilder<'repo> {
    fn new(repo: &'repo Repository, start: &CommitBase<'repo>) -> Result<Self, GitError> {
        let loads = LoadCheck::new(repo);
        Ok(Self { loads, overlay: start.overlay()?, written: Written::default() })
    }

    fn add_entry(&mut self, path: &TreePath, id: Oid, size: u64) {
        self.written.entries.push(file_entry(path, id, size));
    }
}

fn file_entry(path: &TreePath, id: Oid, size: u64) -> Entry {
    Entry {
        kind: EntryKind::File,
        name: path.name().to_vec(),
        path: path.as_bytes().to_vec(),
        id,
        size,
        content: None,
        submodule_url: None,
    }
}

/// Returns a written file as an entry of the commit's tree, if it exists there.
pub fn written_file(repo: &Repository, tree: &git2::Tree<'_>, path: &TreePath) -> Result<Option<Entry>, GitError> {
    let Some((_, id)) = find(repo, tree, path)? else { return Ok(None) };
    Ok(Some(file_entry(path, id, read_blob(&LoadCheck::new(repo), id, 0)?.0)))
}

/// Creates, replaces or moves a file. The caller holds the repository's write lock and writes the
/// objects. `require` checks what the commit's base has at the path.
pub fn put_file(repo: &Repository, put: &PutFile, require: EntryPrecondition<'_>) -> Result<PreparedCommit, GitError> {
    let (at, file) = (FieldPath(None), &put.file);
    let start = CommitBase::find(repo, &put.draft)?;
    let mut builder = CommitBuilder::new(repo, &start)?;
    let moved = apply_removal(at, &mut builder, file)?;
    let found = at.file("path", &mut builder.overlay, &file.path)?;
    file.operation.content().map_or(Ok(()), |content| at.check_special(&file.path, content))?;
    start.require(found, require)?;
    apply_write(at, &mut builder, file, moved)?;
    start.commit(&put.draft, &builder.overlay, builder.written)
}

/// Removes a file or symbolic link, and directories that become empty. Otherwise like [`put_file`].
pub fn delete_file(
    repo: &Repository,
    delete: &DeleteFile,
    require: EntryPrecondition<'_>,
) -> Result<PreparedCommit, GitError> {
    let at = FieldPath(None);
    let start = CommitBase::find(repo, &delete.draft)?;
    let mut builder = CommitBuilder::new(repo, &start)?;
    let found = removable(at, &mut builder.overlay, &delete.path)?;
    if found.is_none() {
        return Err(GitError::PathNotFound);
    }
    start.require(found, require)?;
    at.check_blob(delete.expected_blob, found)?;
    builder.overlay.remove(&delete.path)?;
    builder.written.changes.delete(&delete.path);
    start.commit(&delete.draft, &builder.overlay, builder.written)
}

/// Returns the entry to remove, if it exists. A symbolic link can be removed whatever its target.
fn removable(at: FieldPath, overlay: &mut Overlay<'_>, path: &TreePath) -> Result<Option<TreeEntry>, GitError> {
    match overlay.find(path)? {
        // A parent is not a directory, so the path does not exist.
        Err(_) => Ok(None),
        Ok(Some(entry)) if entry.kind() == EntryKind::Symlink => Ok(Some(entry)),
        Ok(_) => at.file("path", overlay, path),
    }
}

/// Changes several files. Otherwise like [`put_file`].
pub fn change_files(repo: &Repository, change: &ChangeFiles) -> Result<PreparedCommit, GitError> {
    check_files(&change.files)?;
    let start = CommitBase::find(repo, &change.draft)?;
    let mut builder = CommitBuilder::new(repo, &start)?;
    // Removals first, so that other changes can use the freed paths in any order.
    let mut moved = Vec::with_capacity(change.files.len());
    for (index, file) in change.files.iter().enumerate() {
        moved.push(apply_removal(FieldPath(Some(index)), &mut builder, file)?);
    }
    for ((index, file), moved) in change.files.iter().enumerate().zip(moved) {
        apply_write(FieldPath(Some(index)), &mut builder, file, moved)?;
    }
    start.commit(&change.draft, &builder.overlay, builder.written)
}

/// Applies the removal in a change. Returns the entry that a move takes along.
fn apply_removal(
    at: FieldPath,
    builder: &mut CommitBuilder<'_>,
    file: &FileChange,
) -> Result<Option<TreeEntry>, GitError> {
    let (name, path) = match &file.operation {
        Operation::Create(_) | Operation::Update(_) | Operation::Put(_) => return Ok(None),
        Operation::Delete => ("path", &file.path),
        Operation::Move(from, _) => ("from_path", from),
    };
    let found = match &file.operation {
        Operation::Delete => removable(at, &mut builder.overlay, path)?,
        Operation::Create(_) | Operation::Update(_) | Operation::Put(_) | Operation::Move(..) => {
            at.file(name, &mut builder.overlay, path)?
        }
    };
    at.check_blob(file.expected_blob, found)?;
    if found.is_none() {
        return Err(at.refuse(name, "invalid", "does not exist"));
    }
    builder.overlay.remove(path)?;
    Ok(found)
}

fn apply_write(
    at: FieldPath,
    builder: &mut CommitBuilder<'_>,
    file: &FileChange,
    moved: Option<TreeEntry>,
) -> Result<(), GitError> {
    if file.operation == Operation::Delete {
        builder.written.changes.delete(&file.path);
        return Ok(());
    }
    let found = at.file("path", &mut builder.overlay, &file.path)?;
    if found.is_some() || moved.is_some() {
        builder.written.changes.update(&file.path);
    } else {
        builder.written.changes.add(&file.path);
    }
    if found.is_none() && !matches!(file.operation, Operation::Update(_)) {
        check_new_name(file.path.as_bytes(), &at.field("path"))?;
    }
    match (&file.operation, found, moved) {
        (Operation::Create(_) | Operation::Move(..), Some(_), _) => Err(at.refuse("path", "taken", "already exists")),
        (Operation::Create(content), None, _) => at.write(builder, &file.path, content, FILE_MODE),
        (Operation::Update(content), found, _) => {
            at.check_blob(file.expected_blob, found)?;
            let found = found.ok_or_else(|| at.refuse("path", "invalid", "does not exist"))?;
            at.write(builder, &file.path, content, found.mode)
        }
        (Operation::Put(content), found, _) => {
            at.check_blob(file.expected_blob, found)?;
            at.write(builder, &file.path, content, found.map_or(FILE_MODE, |found| found.mode))
        }
        (Operation::Move(_, Some(content)), None, moved) => {
            at.write(builder, &file.path, content, moved.map_or(FILE_MODE, |moved| moved.mode))
        }
        (Operation::Move(_, None), None, Some(moved)) => {
            // Content matters only for files that git itself reads.
            let limit = if is_special(&file.path) { MAX_GITMODULES } else { 0 };
            let (size, content) = read_blob(&builder.loads, moved.id, limit)?;
            if let Some(content) = content {
                at.check_special(&file.path, &content)?;
            } else if is_special(&file.path) {
                return Err(at.refuse("path", "invalid", "the moved file is too large for this name"));
            }
            builder.overlay.set(&file.path, moved)?;
            builder.add_entry(&file.path, moved.id, size);
            Ok(())
        }
        (Operation::Delete, ..) | (Operation::Move(_, None), None, None) => Ok(()),
    }
}

fn is_special(path: &TreePath) -> bool {
    let name = String::from_utf8_lossy(path.name());
    is_dot_gitmodules(&name) || is_dot_gitattributes(&name)
}

/// Checks the rules that do not need the repository.
fn check_files(files: &[FileChange]) -> Result<(), GitError> {
    if files.is_empty() {
        return Err(GitError::invalid("files", "required", "must not be empty"));
    }
    if files.len() > MAX_FILES {
        return Err(GitError::invalid("files", "too_long", "must have at most 1000 entries"));
    }
    let size = |file: &FileChange| file.operation.content().map_or(0, Bytes::len);
    if files.iter().map(size).sum::<usize>() as u64 > MAX_COMMIT_BYTES {
        return Err(GitError::TooLarge { what: "the total size of all files", limit: MAX_COMMIT_BYTES });
    }
    let mut seen = HashSet::new();
    for (index, file) in files.iter().enumerate() {
        let from = match &file.operation {
            Operation::Move(from, _) => Some(("from_path", from)),
            Operation::Create(_) | Operation::Update(_) | Operation::Put(_) | Operation::Delete => None,
        };
        for (name, path) in [Some(("path", &file.path)), from].into_iter().flatten() {
            if !seen.insert(path.as_bytes()) {
                return Err(FieldPath(Some(index)).refuse(name, "invalid", "duplicate path"));
            }
        }
    }
    Ok(())
}
