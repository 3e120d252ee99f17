//! Folders: their entries with the last commit of each, and the README below them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::RepositoryVisit;
use super::document;
use super::edit_links::edit_link;
use super::revision::{Revision, short_id};
use crate::pages::components::Time;
use crate::pages::error::{PageError, PageResult};
use crate::pages::view::Account;
use ferrite_api_types::links::encode_path;

/// Larger READMEs are only linked.
const MAX_README_BYTES: u64 = 512 << 10;
/// The beginnings of names, in lower case, of the files of a licence.
const LICENSES: [&str; 3] = ["license", "licence", "copying"];

/// A folder of a commit, as the API describes it.
#[derive(Deserialize)]
pub(super) struct Folder {
    commit: Option<CommitSummary>,
    pub(super) entries: Vec<Entry>,
    commits: BTreeMap<String, CommitSummary>,
    truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryKind {
    File,
    #[serde(rename = "dir")]
    Folder,
    Symlink,
    Submodule,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: EntryKind,
    #[serde(default)]
    size: Option<u64>,
    sha: String,
    last_commit: Option<String>,
}

#[derive(Clone, Deserialize)]
struct CommitSummary {
    sha: String,
    subject: String,
    author_name: String,
    author: Option<Account>,
    created: Time,
}

/// A commit above a folder or a file.
pub(super) struct Tip {
    pub(super) sha: String,
    pub(super) subject: String,
    pub(super) author_name: String,
    pub(super) author: Option<Account>,
    pub(super) time: Time,
    pub(super) href: String,
}

/// The table of a folder.
pub(super) struct Listing {
    pub(super) tip: Option<Tip>,
    /// The page of the folder above; `None` for the root.
    pub(super) parent: Option<String>,
    pub(super) rows: Vec<Row>,
    /// Whether there are more entries.
    pub(super) truncated: bool,
    pub(super) history: String,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) icon: &'static str,
    /// What a screen reader says before the name.
    pub(super) kind: &'static str,
    /// The commit of a submodule.
    pub(super) module_commit: Option<String>,
    pub(super) change: Option<Tip>,
}

pub(super) struct Readme {
    pub(super) name: String,
    pub(super) href: String,
    /// The page that edits it.
    pub(super) edit: Option<String>,
    /// HTML of our own renderer.
    pub(super) html: String,
}

/// A link to a file.
pub(super) struct FileLink {
    pub(super) name: String,
    pub(super) href: String,
}

impl Tip {
    fn new(commit: &CommitSummary, at: &RepositoryVisit) -> Self {
        Self {
            href: format!("{}/commit/{}", at.repository.path(), commit.sha),
            sha: commit.sha.clone(),
            subject: commit.subject.clone(),
            author_name: commit.author_name.clone(),
            author: commit.author.clone(),
            time: commit.created,
        }
    }

    pub(super) fn short(&self) -> &str {
        short_id(&self.sha)
    }
}

impl EntryKind {
    fn icon(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Symlink => "link",
            Self::Submodule => "submodule",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::Folder => "Folder",
            Self::Symlink => "Link",
            Self::Submodule => "Submodule",
        }
    }
}

impl Folder {
    /// Reads a folder of a commit; `None` if it does not exist, or is no folder.
    pub(super) async fn find(at: &RepositoryVisit, revision: &Revision, path: &str) -> PageResult<Option<Self>> {
        let path = folder_path(path);
        at.visit.api.find(&format!("{}/tree-commits{path}?{}", at.repository.api(), revision.query())).await
    }

    /// Reads the root of the default branch; `None` if that branch does not exist.
    pub(super) async fn find_root(at: &RepositoryVisit) -> PageResult<Option<Self>> {
        at.visit.api.find(&format!("{}/tree-commits", at.repository.api())).await
    }

    /// The id of the commit that the folder was read at.
    pub(super) fn commit_id(&self) -> Option<&str> {
        self.commit.as_ref().map(|commit| commit.sha.as_str())
    }

    /// The commit that last changed an entry.
    pub(super) fn last_change(&self, at: &RepositoryVisit, name: &str) -> Option<Tip> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        self.change(at, entry)
    }

    fn change(&self, at: &RepositoryVisit, entry: &Entry) -> Option<Tip> {
        self.commits.get(entry.last_commit.as_ref()?).map(|commit| Tip::new(commit, at))
    }

    pub(super) fn listing(&self, at: &RepositoryVisit, revision: &Revision, path: &str) -> Listing {
        let row = |entry: &Entry| Row {
            name: entry.name.clone(),
            href: revision.path_of("src", &join(path, &entry.name)),
            icon: entry.kind.icon(),
            kind: entry.kind.word(),
            module_commit: (entry.kind == EntryKind::Submodule).then(|| short_id(&entry.sha).to_owned()),
            change: self.change(at, entry),
        };
        Listing {
            tip: self.commit.as_ref().map(|commit| Tip::new(commit, at)),
            parent: parent(path).map(|parent| revision.path_of("src", parent)),
            rows: self.entries.iter().map(row).collect(),
            truncated: self.truncated,
            history: revision.path_of("commits", path),
        }
    }

    /// Finds the file with the licence of the repository, whose root this is.
    pub(super) fn license(&self, revision: &Revision) -> Option<FileLink> {
        let is_license = |name: &str| LICENSES.iter().any(|begin| name.to_ascii_lowercase().starts_with(begin));
        let entry = self.entries.iter().find(|entry| entry.kind == EntryKind::File && is_license(&entry.name))?;
        Some(FileLink { name: entry.name.clone(), href: revision.path_of("src", &entry.name) })
    }

    /// Reads and renders the README of the folder.
    pub(super) async fn readme(
        &self,
        at: &RepositoryVisit,
        revision: &Revision,
        path: &str,
    ) -> PageResult<Option<Readme>> {
        let Some(entry) = readme_of(&self.entries) else { return Ok(None) };
        let file = join(path, &entry.name);
        let raw = format!("{}/raw/{}?{}", at.repository.api(), encode_path(file.as_bytes()), revision.query());
        let text = at.visit.api.text(&raw).await?;
        let html = match document::is_markdown(&entry.name) {
            true => document::render(at, revision, path, &text).await,
            false => Ok(document::plain(&text)),
        };
        let html = match html {
            // The folder is useful without it.
            Err(PageError::Refused(_)) => document::plain(&text),
            html => html?,
        };
        let (href, edit) = (revision.path_of("src", &file), edit_link(at, revision, &file));
        Ok(Some(Readme { href, edit, name: entry.name.clone(), html }))
    }
}

/// Finds the README among the files of a folder: one of Markdown before others.
fn readme_of(entries: &[Entry]) -> Option<&Entry> {
    let is_readme = |entry: &&Entry| {
        let name = entry.name.to_ascii_lowercase();
        let is_named = name == "readme" || name.starts_with("readme.");
        let is_small = entry.size.is_some_and(|size| size <= MAX_README_BYTES);
        is_named && is_small && entry.kind == EntryKind::File
    };
    let mut readmes: Vec<_> = entries.iter().filter(is_readme).collect();
    readmes.sort_by_key(|entry| !document::is_markdown(&entry.name));
    readmes.first().copied()
}

fn folder_path(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("/{}", encode_path(path.as_bytes())) }
}

/// Returns the path of an entry of a folder.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns the folder that a path is in; `None` for the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None => (!path.is_empty()).then_some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: EntryKind, size: u64) -> Entry {
        Entry { name: name.to_owned(), kind, size: Some(size), sha: "a".repeat(40), last_commit: None }
    }

    #[test]
    fn the_readme_is_a_small_file_and_markdown_first() {
        let name = |entries: &[Entry]| readme_of(entries).map(|entry| entry.name.clone());
        let text = || entry("README", EntryKind::File, 1);
        let markdown = || entry("ReadMe.md", EntryKind::File, 1);
        assert_eq!(name(&[text(), markdown()]).as_deref(), Some("ReadMe.md"));
        assert_eq!(name(&[entry("readme2.md", EntryKind::File, 1), text()]).as_deref(), Some("README"));
        let others = [entry("README.md", EntryKind::Folder, 1), entry("README.txt", EntryKind::File, 1 << 20)];
        assert_eq!(name(&others), None);
    }

    #[test]
    fn a_path_has_folders_above_it() {
        assert_eq!((parent("a/b/c"), parent("a"), parent("")), (Some("a/b"), Some(""), None));
        assert_eq!((join("", "a"), join("a/b", "c")), ("a".to_owned(), "a/b/c".to_owned()));
        assert_eq!((folder_path(""), folder_path("a b/c")), (String::new(), "/a%20b/c".to_owned()));
    }

    #[test]
    fn a_folder_is_read_as_the_api_writes_it() {
        let commit = serde_json::json!({
            "sha": "c", "html_url": "u", "subject": "s", "author_name": "n", "author": null,
            "date": "2026-01-02T03:04:05Z", "created": "2026-01-02T03:04:05Z",
        });
        let folder = serde_json::json!({
            "commit": commit, "commits": {"c": commit}, "is_complete": true, "truncated": false,
            "entries": [
                {"name": "src", "type": "dir", "mode": "040000", "sha": "b", "last_commit": "c"},
                {"name": "x", "type": "submodule", "mode": "160000", "sha": "b", "last_commit": null},
                {"name": "y", "type": "symlink", "mode": "120000", "size": 1, "sha": "b", "last_commit": null},
                {"name": "LICENSE", "type": "file", "mode": "100644", "size": 1, "sha": "b", "last_commit": "c"},
            ],
        });
        let folder: Folder = serde_json::from_value(folder).unwrap();
        let kinds: Vec<_> = folder.entries.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [EntryKind::Folder, EntryKind::Submodule, EntryKind::Symlink, EntryKind::File]);
        assert_eq!(folder.commit_id(), Some("c"));
    }
}
