//! The paths of the forms that change files, and the links to them on the pages of files and folders.

use ferrite_api_types::links::encode_path;

use super::RepositoryVisit;
use super::revision::{Kind, Revision};
use crate::pages::view::Repository;

/// The pages of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Edit,
    New,
    Delete,
    Upload,
}

impl Page {
    fn word(self) -> &'static str {
        match self {
            Self::Edit => "_edit",
            Self::New => "_new",
            Self::Delete => "_delete",
            Self::Upload => "_upload",
        }
    }

    /// The path of the page about a file or folder, which is decoded and can be empty.
    pub(super) fn path(self, repository: &Repository, branch: &str, path: &str) -> String {
        let slash = if path.is_empty() { "" } else { "/" };
        let (branch, path) = (encode_path(branch.as_bytes()), encode_path(path.as_bytes()));
        format!("{}/{}/{branch}{slash}{path}", repository.path(), self.word())
    }
}

/// The links of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileLinks {
    pub(super) edit: Option<String>,
    pub(super) delete: Option<String>,
    /// For a reader who could edit the file in a fork.
    pub(super) fork: Option<String>,
}

/// The links of a folder.
pub(super) struct AddLinks {
    pub(super) new: String,
    pub(super) upload: String,
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
    /// `is_file` tells whether it is a file or a symbolic link, and `is_text` whether the file can be edited as a text.
    pub(super) fn new(at: &RepositoryVisit, revision: &Revision, path: &str, is_file: bool, is_text: bool) -> Self {
        let page = |page: Page| page.path(&at.repository, &revision.name, path);
        match Right::of(at, revision) {
            Right::Write => Self {
                edit: is_text.then(|| page(Page::Edit)),
                delete: is_file.then(|| page(Page::Delete)),
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
    pub(super) fn find(at: &RepositoryVisit, revision: &Revision, folder: &str) -> Option<Self> {
        let page = |page: Page| page.path(&at.repository, &revision.name, folder);
        let can_write = Right::of(at, revision) == Right::Write;
        can_write.then(|| Self { new: page(Page::New), upload: page(Page::Upload) })
    }
}

/// The link that edits a text file, for those who can write.
pub(super) fn edit_link(at: &RepositoryVisit, revision: &Revision, path: &str) -> Option<String> {
    FileLinks::new(at, revision, path, true, true).edit
}
