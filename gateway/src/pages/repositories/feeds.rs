//! Atom feeds of the commits of a branch, of tags, of releases and of activities.

use axum::Router;
use axum::routing::get;
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::RepositoryVisit;
use super::refs::Tag;
use super::revision::{Kind, Revision};
use crate::pages::atom::{self, ENDING, Entry, MAX_ENTRIES};
use crate::pages::components::Time;
use crate::pages::error::{PageError, PageResult};
use crate::pages::view::Account;
use crate::pages::view::activities::Activity;
use crate::pages::view::commits::{Commit, subject};
use crate::pages::visit::{PagesState, Visit};

/// Tags that are read to find the newest ones: the API lists them by name.
const MAX_TAGS: usize = 1_000;

#[derive(Deserialize)]
struct Release {
    tag_name: String,
    name: String,
    #[serde(default)]
    body: String,
    author: Account,
    created_at: Time,
    #[serde(default)]
    published_at: Option<Time>,
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/atom/branch/{*name}", get(commits))
        .route("/{owner}/{repo}/tags.atom", get(tags))
        .route("/{owner}/{repo}/releases.atom", get(releases))
}

/// `/atom/branch/{name}`.
async fn commits(at: RepositoryVisit) -> PageResult {
    let rest = at.rest.strip_prefix("branch/").unwrap_or_default();
    let (revision, path) = Revision::resolve(&at, Kind::Branch, rest).await?;
    if !path.is_empty() {
        return Err(PageError::not_found());
    }
    let list =
        format!("{}/commits?sha={}&limit={MAX_ENTRIES}&stat=false&files=false", at.repository.api(), revision.commit);
    let commits = at.visit.api.list::<Commit>(&list).await?.items;
    let entry = |commit: Commit| Entry {
        path: format!("{}/commit/{}", at.repository.path(), commit.sha),
        title: subject(&commit.commit.message),
        updated: commit.commit.committer.date,
        author: commit.author.as_ref().map_or(&*commit.commit.author.name, Account::name).to_owned(),
        content: commit.commit.message,
        fragment: String::new(),
    };
    let entries = commits.into_iter().map(entry).collect();
    let title = format!("Commits of {} in {}", revision.name, at.repository.full_name());
    atom::respond(&at.visit, &title, &revision.path_of("commits", ""), entries)
}

/// `/tags.atom`: the tags with the newest commits.
async fn tags(at: RepositoryVisit) -> PageResult {
    let list = format!("{}/tags?limit={MAX_TAGS}", at.repository.api());
    let mut tags = at.visit.api.list::<Tag>(&list).await?.items;
    tags.sort_by_key(|tag| std::cmp::Reverse(tag.commit.created));
    tags.truncate(MAX_ENTRIES);
    let entry = |tag: Tag| Entry {
        path: format!("{}/src/tag/{}", at.repository.path(), tag.link()),
        updated: tag.commit.created,
        author: tag.commit.person().to_owned(),
        title: tag.name,
        content: tag.message,
        fragment: String::new(),
    };
    let entries = tags.into_iter().map(entry).collect();
    let title = format!("Tags of {}", at.repository.full_name());
    atom::respond(&at.visit, &title, &format!("{}/tags", at.repository.path()), entries)
}

/// `/releases.atom`: the newest published releases.
async fn releases(at: RepositoryVisit) -> PageResult {
    let list = format!("{}/releases?draft=false&limit={MAX_ENTRIES}", at.repository.api());
    let releases = at.visit.api.list::<Release>(&list).await?.items;
    let entry = |release: Release| Entry {
        path: format!("{}/releases/tag/{}", at.repository.path(), encode(release.tag_name.as_bytes())),
        title: if release.name.is_empty() { release.tag_name } else { release.name },
        updated: release.published_at.unwrap_or(release.created_at),
        author: release.author.name().to_owned(),
        content: release.body,
        fragment: String::new(),
    };
    let entries = releases.into_iter().map(entry).collect();
    let title = format!("Releases of {}", at.repository.full_name());
    atom::respond(&at.visit, &title, &format!("{}/releases", at.repository.path()), entries)
}

/// `/{owner}/{repo}.atom`: what happened lately.
pub(super) async fn activities(visit: Visit) -> PageResult {
    let (owner, name) = (visit.segment(0), visit.segment(1));
    let name = name.strip_suffix(ENDING).unwrap_or(name);
    let list = format!("repos/{owner}/{name}/activities/feeds?limit={MAX_ENTRIES}");
    let activities = visit.api.list::<Activity>(&list).await?.items;
    atom::activities(&visit, &format!("Activity in {owner}/{name}"), &format!("/{owner}/{name}"), activities)
}
