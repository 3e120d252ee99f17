//! Links to the forms, on the pages of files and folders.

use super::Page;
use crate::pages::repositories::RepositoryVisit;
use crate::pages::repositories::folder::EntryKind;
use crate::pages::repositories::revision::{Kind, Revision};

/// The links of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::pages::repositories) struct FileLinks {
    pub(in crate::pages::repositories) edit: Option<String>,
    pub(in crate::pages::repositories) delete: Option<String>,
    /// For a reader who could edit the file in a fork.
    pub(in crate::pages::repositories) fork: Option<String>,
}

/// The links of a folder.
pub(in crate::pages::repositories) struct AddLinks {
    pub(in crate::pages::repositories) new: String,
    pub(in crate::pages::repositories) upload: String,
}

/// How the visitor can change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Write,
    InFork,
    None,
}

impl Right {
    fn of(at: &RepositoryVisit, revision: &Revision) -> Self {
        let repository = &at.repository;
        if at.visit.shell.viewer.is_none() || revision.kind != Kind::Branch {
            Self::None
        } else if repository.can_write() {
            Self::Write
        } else if repository.permissions.push || repository.archived {
            Self::None
        } else {
            Self::InFork
        }
    }
}

impl FileLinks {
    /// `is_text` tells whether the file can be edited as a text.
    pub(in crate::pages::repositories) fn new(
        at: &RepositoryVisit,
        revision: &Revision,
        path: &str,
        kind: EntryKind,
        is_text: bool,
    ) -> Self {
        let page = |page: Page| page.path(&at.repository, &revision.name, path);
        match Right::of(at, revision) {
            Right::Write => Self {
                edit: is_text.then(|| page(Page::Edit)),
                delete: matches!(kind, EntryKind::File | EntryKind::Symlink).then(|| page(Page::Delete)),
                fork: None,
            },
            Right::InFork if is_text => {
                Self { fork: Some(format!("{}/fork", at.repository.path())), ..Self::default() }
            }
            Right::InFork | Right::None => Self::default(),
        }
    }
}

impl AddLinks {
    /// The links of a folder, for those who can write.
    pub(in crate::pages::repositories) fn find(
        at: &RepositoryVisit,
        revision: &Revision,
        folder: &str,
    ) -> Option<Self> {
        let page = |page: Page| page.path(&at.repository, &revision.name, folder);
        let can_write = Right::of(at, revision) == Right::Write;
        can_write.then(|| Self { new: page(Page::New), upload: page(Page::Upload) })
    }
}

/// The link that edits a text file, for those who can write.
pub(in crate::pages::repositories) fn edit_link(
    at: &RepositoryVisit,
    revision: &Revision,
    path: &str,
) -> Option<String> {
    FileLinks::new(at, revision, path, EntryKind::File, true).edit
}
