//! The start page of a repository.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;

use super::edit_links::AddLinks;
use super::editor::first_branch;
use super::feeds;
use super::folder::{FileLink, Folder, Listing, Readme};
use super::revision::{Chooser, Kind, Names, Revision};
use super::{RepositoryVisit, Tab};
use crate::pages::atom::ENDING;
use crate::pages::components::{Count, filters};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::view::Repository;
use crate::pages::visit::Visit;

/// Before the first count of the languages, the API waits for it.
const LANGUAGES_TIMEOUT: Duration = Duration::from_secs(1);
/// Languages by name; the others are one.
const MAX_LANGUAGES: usize = 6;
/// The colors of the languages, from the most used one. Texts beside them say which is which.
const COLORS: [&str; MAX_LANGUAGES + 1] = ["#a33b20", "#2563c9", "#2f8f55", "#8a5cc4", "#c58a12", "#1f8a94", "#8a8580"];

#[derive(Template)]
#[template(path = "repository/empty.html")]
struct Empty<'a> {
    can_write: bool,
    clone_url: &'a str,
    default_branch: &'a str,
    add: Option<AddLinks>,
}

#[derive(Template)]
#[template(path = "repository/unborn.html")]
struct Unborn<'a> {
    repository: &'a Repository,
}

#[derive(Template)]
#[template(path = "repository/home.html")]
struct Home<'a> {
    repository: &'a Repository,
    chooser: Chooser,
    find: String,
    add: Option<AddLinks>,
    listing: Listing,
    readme: Option<Readme>,
    license: Option<FileLink>,
    website: Option<&'a str>,
    languages: Vec<Language>,
    archives: Vec<FileLink>,
}

/// The share of a language in the code of a repository.
#[derive(Debug, PartialEq)]
struct Language {
    name: String,
    /// With one decimal.
    percent: String,
    /// The place in the bar, in percent.
    from: String,
    color: &'static str,
}

impl Content for Empty<'_> {
    fn title(&self) -> String {
        String::new()
    }
}

impl Content for Unborn<'_> {
    fn title(&self) -> String {
        String::new()
    }
}

impl Content for Home<'_> {
    fn title(&self) -> String {
        String::new()
    }
}

impl Home<'_> {
    fn branch_count(&self) -> String {
        match self.chooser.branch_count {
            1 => "1 branch".to_owned(),
            count => format!("{count} branches"),
        }
    }

    fn tag_count(&self) -> String {
        Count(self.chooser.tag_count, "tag").to_string()
    }

    fn release_count(&self) -> String {
        Count(self.repository.release_counter, "release").to_string()
    }
}

/// The start page; with the ending of feeds in the path the activity, because a route has no endings.
pub(super) async fn home(visit: Visit) -> PageResult {
    match visit.segment(1).ends_with(ENDING) {
        true => feeds::activities(visit).await,
        false => show(RepositoryVisit::of(visit).await?).await,
    }
}

async fn show(at: RepositoryVisit) -> PageResult {
    let repository = &at.repository;
    if repository.empty {
        let default_branch = first_branch(repository);
        let add = AddLinks::find(&at, &Revision::branch(&at, default_branch, ""), "");
        let (can_write, clone_url) = (repository.can_write(), repository.clone_url.as_str());
        return at.page(Tab::Code, &Empty { can_write, clone_url, default_branch, add });
    }
    let languages = async { Ok(languages(&at).await) };
    let (folder, names, languages) = tokio::try_join!(Folder::find_root(&at), Names::read(&at), languages)?;
    let Some((folder, commit)) = folder.as_ref().and_then(|folder| Some((folder, folder.commit_id()?))) else {
        return at.page(Tab::Code, &Unborn { repository });
    };
    let revision = Revision::default_branch(&at, commit);
    let readme = folder.readme(&at, &revision, "").await?;
    let archive = |ending: &str| FileLink {
        name: ending.to_owned(),
        href: format!("{}/archive/{}.{ending}", repository.path(), revision.encoded_name()),
    };
    let page = Home {
        repository,
        find: revision.path_of("find", ""),
        add: AddLinks::find(&at, &revision, ""),
        listing: folder.listing(&at, &revision, ""),
        readme,
        license: folder.license(&revision),
        website: website(&repository.website),
        languages,
        archives: ["zip", "tar.gz"].into_iter().map(archive).collect(),
        chooser: names.chooser(revision, "src", ""),
    };
    at.page(Tab::Code, &page)
}

/// Reads the languages. The page is useful without them.
async fn languages(at: &RepositoryVisit) -> Vec<Language> {
    let path = format!("{}/languages", at.repository.api());
    match tokio::time::timeout(LANGUAGES_TIMEOUT, at.visit.api.get(&path)).await {
        Ok(Ok(found)) => shares(found),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Returns the shares of languages, given their bytes.
fn shares(bytes: BTreeMap<String, u64>) -> Vec<Language> {
    let total = bytes.values().sum::<u64>();
    let mut languages: Vec<_> = bytes.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    languages.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    if languages.len() > MAX_LANGUAGES + 1 {
        let others = languages.split_off(MAX_LANGUAGES);
        languages.push(("Other".to_owned(), others.iter().map(|(_, bytes)| bytes).sum()));
    }
    let mut before = 0;
    let share = |((name, bytes), color): ((String, u64), &'static str)| {
        let percent = |bytes: u64| format!("{:.1}", bytes as f64 * 100.0 / total as f64);
        let from = percent(before);
        before += bytes;
        Language { name, percent: percent(bytes), from, color }
    };
    languages.into_iter().zip(COLORS).map(share).collect()
}

/// Returns the website if browsers may open it.
fn website(url: &str) -> Option<&str> {
    let url = url.trim();
    let is_web = |scheme: &str| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    ["http://", "https://"].into_iter().any(is_web).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_languages_are_one() {
        let bytes: BTreeMap<_, _> = (0..9_u64).map(|place| (format!("L{place}"), 9 - place)).collect();
        let shares = shares(bytes);
        assert_eq!(shares.len(), MAX_LANGUAGES + 1);
        let first =
            Language { name: "L0".to_owned(), percent: "20.0".to_owned(), from: "0.0".to_owned(), color: COLORS[0] };
        assert_eq!(shares[0], first);
        let last = shares.last().unwrap();
        assert_eq!((last.name.as_str(), last.percent.as_str(), last.from.as_str()), ("Other", "13.3", "86.7"));
        assert!(super::shares(BTreeMap::from([("L".to_owned(), 0)])).is_empty());
    }

    #[test]
    fn only_web_addresses_are_links() {
        assert_eq!(website(" HTTPS://a.example "), Some("HTTPS://a.example"));
        for other in ["", "javascript:alert(1)", "a.example", "ftp://a", "https:/a"] {
            assert_eq!(website(other), None, "{other}");
        }
    }
}
