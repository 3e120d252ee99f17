//! Creates, changes and deletes pages of wikis. Each call makes one commit on the default branch.

use bytes::Bytes;
use ferrite_core::version::PreconditionFailed;
use ferrite_proto::error::FieldViolation;
use git2::{Oid, Repository};

use super::{
    commit::{CommitDraft, PreparedCommit},
    files::{DeleteFile, FileChange, Operation, PutFile, delete_file, put_file},
};
use crate::{
    repo::{
        read::wiki::{PageFile, find_page},
        refs,
    },
    types::{
        error::GitError,
        wiki::{PageName, PageTitle},
    },
};

/// A precondition on a page that is replaced or deleted.
pub type PagePrecondition<'a> = &'a dyn Fn(&PageFile) -> Result<(), PreconditionFailed>;

/// A page to create.
#[derive(Clone, Debug)]
pub struct NewPage {
    /// The title.
    pub title: PageTitle,
    /// The text.
    pub content: Bytes,
    /// The commit, on the default branch.
    pub draft: CommitDraft,
}

/// A change of a page.
#[derive(Clone, Debug)]
pub struct PageChange {
    /// The page.
    pub name: PageName,
    /// The new title; `None` to keep it.
    pub title: Option<PageTitle>,
    /// The new text; `None` to keep it.
    pub content: Option<Bytes>,
    /// The blob that the page must have, if any is required.
    pub expected_blob: Option<Oid>,
    /// The commit, on the default branch.
    pub draft: CommitDraft,
}

/// A page to delete.
#[derive(Clone, Debug)]
pub struct PageRemoval {
    /// The page.
    pub name: PageName,
    /// The commit, on the default branch.
    pub draft: CommitDraft,
}

/// Creates a page. The caller holds the repository's write lock and writes the objects.
///
/// # Errors
/// `Invalid` if there is a page with the title.
pub fn create_page(repo: &Repository, new: &NewPage) -> Result<PreparedCommit, GitError> {
    require_free(repo, &new.title)?;
    let operation = Operation::Create(new.content.clone());
    put(repo, FileChange { path: new.title.path().clone(), operation, expected_blob: None }, &new.draft)
}

/// Changes a page. Otherwise like [`create_page`].
///
/// # Errors
/// `WikiPageNotFound`, `StaleBlob`, `Precondition`, and `Invalid` if nothing changes or there is another
/// page with the new title.
pub fn update_page(
    repo: &Repository,
    change: &PageChange,
    require: PagePrecondition<'_>,
) -> Result<PreparedCommit, GitError> {
    let found = existing(repo, &change.name, require)?;
    let PageChange { content, expected_blob, draft, .. } = change;
    let title = change.title.as_ref().filter(|title| title.as_str() != found.title);
    let (path, operation) = match (title, content) {
        (Some(title), content) => {
            require_free(repo, title)?;
            (title.path().clone(), Operation::Move(found.path, content.clone()))
        }
        (None, Some(content)) => (found.path, Operation::Update(content.clone())),
        (None, None) => return Err(unchanged()),
    };
    put(repo, FileChange { path, operation, expected_blob: *expected_blob }, draft)
}

/// Deletes a page. Otherwise like [`create_page`].
///
/// # Errors
/// `WikiPageNotFound` and `Precondition`.
pub fn delete_page(
    repo: &Repository,
    removal: &PageRemoval,
    require: PagePrecondition<'_>,
) -> Result<PreparedCommit, GitError> {
    let path = existing(repo, &removal.name, require)?.path;
    delete_file(repo, &DeleteFile { path, expected_blob: None, draft: removal.draft.clone() }, &|_| Ok(()))
}

fn existing(repo: &Repository, name: &PageName, require: PagePrecondition<'_>) -> Result<PageFile, GitError> {
    let found = find_page(repo, name)?.ok_or(GitError::WikiPageNotFound)?;
    match require(&found) {
        Ok(()) => Ok(found),
        Err(_) => Err(GitError::Precondition { branch: refs::head(repo)?.branch.as_bytes().to_vec() }),
    }
}

fn require_free(repo: &Repository, title: &PageTitle) -> Result<(), GitError> {
    match find_page(repo, &PageName::of_title(title.as_str()))? {
        Some(_) => Err(GitError::invalid("title", "taken", "a page with this title exists")),
        None => Ok(()),
    }
}

fn put(repo: &Repository, file: FileChange, draft: &CommitDraft) -> Result<PreparedCommit, GitError> {
    put_file(repo, &PutFile { file, draft: draft.clone() }, &|_| Ok(())).map_err(|error| match error {
        GitError::UnchangedContent => unchanged(),
        // Something other than a file is at the path.
        GitError::Invalid(violation) if violation.field == "path" => {
            GitError::Invalid(FieldViolation { field: "title".to_owned(), ..violation })
        }
        error => error,
    })
}

fn unchanged() -> GitError {
    GitError::invalid("content_base64", "invalid", "the page already has this title and content")
}
