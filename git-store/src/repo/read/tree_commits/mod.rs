//! Finds the last commit that changed each entry of a folder.

mod walk;

use std::time::Duration;

use git2::{Oid, Repository, Tree};

use self::walk::EntryWalk;
use super::{
    commit_paths::Kept, commit_summary::CommitSummary, contents::find, deadline::Deadline, entry::EntryKind,
    tree::blob_size,
};
use crate::{
    repo::objects,
    types::{error::GitError, path::TreePath},
};

/// Maximum number of entries.
pub const MAX_LISTED_ENTRIES: usize = 1000;
/// Maximum number of commits whose folder is read.
pub const MAX_VISITED_COMMITS: usize = 10_000;
/// Time limit for the walk through history, including the time in the queue.
pub const WALK_TIMEOUT: Duration = Duration::from_secs(2);

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryCommit {
    /// The kind.
    pub kind: EntryKind,
    /// The name.
    pub name: Vec<u8>,
    /// The mode as git writes it today.
    pub mode: i32,
    /// The id of the object.
    pub id: Oid,
    /// Size of a blob in bytes; `None` for folders and submodules.
    pub size: Option<u64>,
    /// The last commit that changed it; `None` if a limit was reached before it was found.
    pub last_commit: Option<Oid>,
}

/// The entries of a folder with their last commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeCommits {
    /// The commit that has the folder; `None` in a repository without commits.
    pub commit: Option<CommitSummary>,
    /// Folders and submodules, then the others, both by name.
    pub entries: Vec<EntryCommit>,
    /// The last commits of the entries, each once.
    pub commits: Vec<CommitSummary>,
    /// Whether the last commit of every entry was found.
    pub is_complete: bool,
    /// Whether there are more entries.
    pub is_truncated: bool,
}

impl Kept for TreeCommits {
    fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|entry| size_of::<EntryCommit>() + entry.name.len());
        let commits = self.commit.iter().chain(&self.commits).map(CommitSummary::bytes);
        entries.sum::<usize>() + commits.sum::<usize>()
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl TreeCommits {
    /// The root of a repository without commits.
    #[must_use]
    pub fn empty() -> Self {
        Self { is_complete: true, ..Self::default() }
    }
}

/// Finds the last commits of the entries of a folder. Walks until `visits` commits were read or the
/// deadline is over; the rest is left open.
///
/// # Errors
/// `PathNotFound` if there is no such folder, and `ClientGone`.
pub fn tree_commits(
    repo: &Repository,
    commit: Oid,
    folder: &TreePath,
    visits: usize,
    deadline: &Deadline,
) -> Result<TreeCommits, GitError> {
    let tree = folder_of(repo, commit, folder)?;
    let mut entries = list(repo, &tree)?;
    let mut walk = EntryWalk::new(repo, folder, deadline, &mut entries, visits);
    match walk.run(commit) {
        Ok(()) | Err(GitError::TimedOut { .. }) => {}
        Err(error) => return Err(error),
    }
    let found = entries.iter().filter_map(|entry| entry.last_commit).collect();
    Ok(TreeCommits {
        commit: Some(CommitSummary::read(repo, commit)?),
        commits: CommitSummary::read_all(repo, &found)?,
        is_complete: entries.iter().all(|entry| entry.last_commit.is_some()),
        is_truncated: tree.len() > entries.len(),
        entries,
    })
}

fn folder_of<'repo>(repo: &'repo Repository, commit: Oid, folder: &TreePath) -> Result<Tree<'repo>, GitError> {
    let root = objects::tree_of(repo, commit)?;
    if folder.is_root() {
        return Ok(root);
    }
    match find(repo, &root, folder)? {
        Some((mode, id)) if EntryKind::of(mode) == EntryKind::Directory => objects::find_tree(repo, id),
        _ => Err(GitError::PathNotFound),
    }
}

fn list(repo: &Repository, tree: &Tree<'_>) -> Result<Vec<EntryCommit>, GitError> {
    let (mut folders, mut others) = (Vec::new(), Vec::new());
    for entry in tree {
        let mode = objects::entry_mode(&entry);
        let kind = EntryKind::of(mode);
        let list = match kind {
            EntryKind::Directory | EntryKind::Submodule => &mut folders,
            EntryKind::File | EntryKind::Symlink => &mut others,
        };
        if list.len() < MAX_LISTED_ENTRIES {
            let (name, id) = (entry.name_bytes().to_vec(), entry.id());
            list.push(EntryCommit { kind, name, mode, id, size: None, last_commit: None });
        }
    }
    // In a tree, the name of a folder is sorted as if it ended in a slash.
    folders.sort_unstable_by(|one: &EntryCommit, other| one.name.cmp(&other.name));
    folders.append(&mut others);
    folders.truncate(MAX_LISTED_ENTRIES);
    let odb = repo.odb()?;
    for entry in &mut folders {
        if matches!(entry.kind, EntryKind::File | EntryKind::Symlink) {
            entry.size = Some(blob_size(&odb, entry.id)?);
        }
    }
    Ok(folders)
}
