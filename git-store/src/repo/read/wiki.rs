//! Reads pages of wikis: Markdown files on the default branch.

use git2::{Oid, Repository, Tree};

use super::{
    commit::CommitInfo,
    contents::{MAX_ENTRIES, MAX_INLINE_BYTES, find},
    deadline::Deadline,
    entry::{EntryKind, read_blob},
    log::{MAX_PATH_STEPS, counted_log_of_path},
};
use crate::{
    repo::{
        deltas::LoadCheck,
        objects,
        refs::{self, Page},
    },
    types::{
        error::GitError,
        path::TreePath,
        wiki::{PageName, file_name, title_of_file},
    },
};

/// Titles of the pages that are shown beside others.
const SIDEBAR: &str = "_Sidebar";
const FOOTER: &str = "_Footer";

/// The file of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// The title.
    pub title: String,
    /// The path from the root.
    pub path: TreePath,
    /// The id of the blob.
    pub id: Oid,
}

/// A page with its content and what is shown beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WikiPage {
    /// The file.
    pub file: PageFile,
    /// The text; `None` if it is too large.
    pub content: Option<Vec<u8>>,
    /// The text of the sidebar; empty without one.
    pub sidebar: Vec<u8>,
    /// The text of the footer; empty without one.
    pub footer: Vec<u8>,
    /// The last commit that changed the page, if it was found.
    pub last_commit: Option<CommitInfo>,
    /// Commits that changed the page.
    pub commit_count: usize,
}

/// The commits that changed a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// Those of one page of the list, newest first.
    pub commits: Vec<CommitInfo>,
    /// The number of all.
    pub count: usize,
}

impl PageFile {
    /// Describes the page in a file; `None` for a file that is no page.
    #[must_use]
    pub fn new(path: &[u8], id: Oid) -> Option<Self> {
        Some(Self { title: title_of_file(path)?, path: TreePath::literal(path).ok()?, id })
    }
}

/// Returns the commit that has the pages; `None` in a wiki without any.
pub fn wiki_tip(repo: &Repository) -> Result<Option<Oid>, GitError> {
    Ok(refs::head(repo)?.tip)
}

/// Finds the file of a page, if there is one.
pub fn find_page(repo: &Repository, name: &PageName) -> Result<Option<PageFile>, GitError> {
    match wiki_tip(repo)? {
        Some(tip) => find_in(repo, &objects::tree_of(repo, tip)?, name),
        None => Ok(None),
    }
}

/// Reads a page.
///
/// # Errors
/// `WikiPageNotFound`.
pub fn wiki_page(repo: &Repository, name: &PageName, deadline: &Deadline) -> Result<WikiPage, GitError> {
    let tip = wiki_tip(repo)?.ok_or(GitError::WikiPageNotFound)?;
    let root = objects::tree_of(repo, tip)?;
    let file = find_in(repo, &root, name)?.ok_or(GitError::WikiPageNotFound)?;
    let loads = LoadCheck::new(repo);
    let content = |id| read_blob(&loads, id, MAX_INLINE_BYTES).map(|(_, content)| content);
    let beside = |title: &str| match find_in(repo, &root, &PageName::of_title(title))? {
        Some(beside) => content(beside.id).map(Option::unwrap_or_default),
        None => Ok(Vec::new()),
    };
    let first = Page { number: 1, size: 1 };
    let (mut commits, commit_count) = counted_log_of_path(repo, tip, &file.path, first, MAX_PATH_STEPS, deadline)?;
    Ok(WikiPage {
        content: content(file.id)?,
        sidebar: beside(SIDEBAR)?,
        footer: beside(FOOTER)?,
        last_commit: commits.pop(),
        commit_count,
        file,
    })
}

/// Reads the commits that changed a page.
///
/// # Errors
/// `WikiPageNotFound`.
pub fn wiki_revisions(
    repo: &Repository,
    name: &PageName,
    page: Page,
    deadline: &Deadline,
) -> Result<Revisions, GitError> {
    let tip = wiki_tip(repo)?.ok_or(GitError::WikiPageNotFound)?;
    let file = find_in(repo, &objects::tree_of(repo, tip)?, name)?.ok_or(GitError::WikiPageNotFound)?;
    let (commits, count) = counted_log_of_path(repo, tip, &file.path, page, MAX_PATH_STEPS, deadline)?;
    Ok(Revisions { commits, count })
}

fn find_in(repo: &Repository, root: &Tree<'_>, name: &PageName) -> Result<Option<PageFile>, GitError> {
    let by_path = || match name.path() {
        Some(path) => at_path(repo, root, path),
        None => Ok(None),
    };
    if name.is_path()
        && let Some(found) = by_path()?
    {
        return Ok(Some(found));
    }
    for title in name.titles() {
        let path = TreePath::literal(file_name(title).as_bytes()).ok();
        if let Some(path) = path
            && let Some(found) = at_path(repo, root, &path)?
        {
            return Ok(Some(found));
        }
        if let Some(found) = with_title(root, title) {
            return Ok(Some(found));
        }
    }
    by_path()
}

fn at_path(repo: &Repository, root: &Tree<'_>, path: &TreePath) -> Result<Option<PageFile>, GitError> {
    let found = find(repo, root, path)?.filter(|(mode, _)| EntryKind::of(*mode) == EntryKind::File);
    Ok(found.and_then(|(_, id)| PageFile::new(path.as_bytes(), id)))
}

/// Finds a page whose file is named as other programs do, such as with spaces.
fn with_title(root: &Tree<'_>, title: &str) -> Option<PageFile> {
    if root.len() > MAX_ENTRIES {
        return None;
    }
    let is_file = |mode| EntryKind::of(mode) == EntryKind::File;
    let files = root.iter().filter(|entry| is_file(objects::entry_mode(entry)));
    files.filter_map(|entry| PageFile::new(entry.name_bytes(), entry.id())).find(|file| file.title == title)
}
