//! A search for files by words of their paths.

use askama::Template;
use serde::Deserialize;

use super::revision::{Kind, Revision};
use super::{RepositoryVisit, Tab};
use crate::pages::components::{filters, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::layout::Content;

/// Files that are shown.
const MAX_SHOWN: usize = 50;
const MAX_QUERY_CHARS: usize = 200;
const MAX_WORDS: usize = 8;

#[derive(Template)]
#[template(path = "repository/find.html")]
struct FindPage {
    label: String,
    /// The page of the root folder.
    root: String,
    /// The path of the form.
    action: String,
    query: String,
    files: Vec<FoundFile>,
    /// Files that match but are not shown.
    more: usize,
    /// Whether the repository has more files than were searched.
    is_partial: bool,
}

struct FoundFile {
    path: String,
    href: String,
}

#[derive(Deserialize)]
struct Tree {
    tree: Vec<Entry>,
    truncated: bool,
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Content for FindPage {
    fn title(&self) -> String {
        format!("Find a file in {}", self.label)
    }
}

/// `/find/{kind}/{name}`, or `/find/{name}` as in older links.
pub(super) async fn find(at: RepositoryVisit) -> PageResult {
    let (revision, path) = match Kind::split(&at.rest) {
        Some((kind, rest)) => Revision::resolve(&at, kind, rest).await?,
        None => Revision::resolve_any(&at, &at.rest).await?,
    };
    if !path.is_empty() {
        return Err(PageError::not_found());
    }
    let query: String =
        parameter(&at.visit.shell.here, "q").unwrap_or_default().trim().chars().take(MAX_QUERY_CHARS).collect();
    let words: Vec<_> = query.split_whitespace().take(MAX_WORDS).map(str::to_lowercase).collect();
    let tree = match words.is_empty() {
        true => Tree { tree: Vec::new(), truncated: false },
        false => read(&at, &revision).await?,
    };
    let paths = tree.tree.into_iter().filter(|entry| entry.kind != "tree").map(|entry| entry.path);
    let (found, more) = matching(paths, &words);
    let page = FindPage {
        label: revision.label().to_owned(),
        root: revision.path_of("src", ""),
        action: revision.path_of("find", ""),
        query,
        files: found.into_iter().map(|path| FoundFile { href: revision.path_of("src", &path), path }).collect(),
        more,
        is_partial: tree.truncated,
    };
    at.page(Tab::Code, &page)
}

async fn read(at: &RepositoryVisit, revision: &Revision) -> PageResult<Tree> {
    at.visit.api.get(&format!("{}/git/trees/{}?recursive=true", at.repository.api(), revision.commit)).await
}

/// Returns the best of the paths that have all words, and the number of the others. Words in the
/// name of a file count more than those in its folders, and short paths more than long ones.
fn matching(paths: impl Iterator<Item = String>, words: &[String]) -> (Vec<String>, usize) {
    let mut found: Vec<_> = paths
        .filter_map(|path| {
            let lower = path.to_lowercase();
            let name = lower.rsplit('/').next().unwrap_or_default();
            let is_in_folders = !words.iter().all(|word| name.contains(word.as_str()));
            words.iter().all(|word| lower.contains(word.as_str())).then_some((is_in_folders, path.len(), path))
        })
        .collect();
    found.sort_unstable();
    let more = found.len().saturating_sub(MAX_SHOWN);
    (found.into_iter().take(MAX_SHOWN).map(|(.., path)| path).collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching_of(paths: &[&str], words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        matching(paths.iter().map(|path| (*path).to_owned()), &words).0
    }

    #[test]
    fn names_come_before_folders_and_short_paths_before_long_ones() {
        let paths = ["read/a.md", "src/deep/Reader.rs", "README.md", "src/main.rs"];
        assert_eq!(matching_of(&paths, &["read"]), ["README.md", "src/deep/Reader.rs", "read/a.md"]);
        assert_eq!(matching_of(&paths, &["read", "rs"]), ["src/deep/Reader.rs"]);
        assert_eq!(matching_of(&paths, &["src", "main"]), ["src/main.rs"]);
        assert!(matching_of(&paths, &["nothing"]).is_empty());
    }

    #[test]
    fn only_some_files_are_shown() {
        let (shown, more) = matching((0..60).map(|number| format!("a{number}")), &["a".to_owned()]);
        assert_eq!((shown.len(), more), (MAX_SHOWN, 10));
    }
}
