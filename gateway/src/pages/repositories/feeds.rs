//! Atom feeds (RFC 4287) of the commits of a branch, of tags and of releases.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, VARY};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::RepositoryVisit;
use super::refs::Tag;
use super::revision::{Kind, Revision};
use crate::http::error::ApiError;
use crate::pages::components::Time;
use crate::pages::error::{PageError, PageResult};
use crate::pages::layout::{Rendered, protect};
use crate::pages::view::Account;
use crate::pages::view::commits::{Commit, subject};
use crate::pages::visit::PagesState;

const MAX_ENTRIES: usize = 20;
/// Tags that are read to find the newest ones: the API lists them by name.
const MAX_TAGS: usize = 1_000;
/// Bytes of a text in an entry.
const MAX_CONTENT_BYTES: usize = 64 << 10;

#[derive(Template)]
#[template(path = "commits/feed.xml")]
struct Feed {
    /// The URL of the feed.
    id: String,
    title: String,
    updated: String,
    /// The URL of the page.
    html: String,
    entries: Vec<Entry>,
}

struct Entry {
    href: String,
    title: String,
    updated: String,
    author: String,
    content: String,
}

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
    let site = Site::of(&at);
    let entry = |commit: Commit| Entry {
        href: site.url(&format!("{}/commit/{}", at.repository.path(), commit.sha)),
        title: text(&subject(&commit.commit.message)),
        updated: time(commit.commit.committer.date),
        author: text(commit.author.as_ref().map_or(&*commit.commit.author.name, Account::name)),
        content: text(&commit.commit.message),
    };
    let entries = commits.into_iter().map(entry).collect();
    let title = format!("Commits of {} in {}", revision.name, at.repository.full_name());
    respond(&at, &title, &revision.path_of("commits", ""), entries)
}

/// `/tags.atom`: the tags with the newest commits.
async fn tags(at: RepositoryVisit) -> PageResult {
    let list = format!("{}/tags?limit={MAX_TAGS}", at.repository.api());
    let mut tags = at.visit.api.list::<Tag>(&list).await?.items;
    tags.sort_by_key(|tag| std::cmp::Reverse(tag.commit.created));
    tags.truncate(MAX_ENTRIES);
    let site = Site::of(&at);
    let entry = |tag: Tag| Entry {
        href: site.url(&format!("{}/src/tag/{}", at.repository.path(), tag.link())),
        title: text(&tag.name),
        updated: time(tag.commit.created),
        author: text(tag.commit.person()),
        content: text(&tag.message),
    };
    let entries = tags.into_iter().map(entry).collect();
    let title = format!("Tags of {}", at.repository.full_name());
    respond(&at, &title, &format!("{}/tags", at.repository.path()), entries)
}

/// `/releases.atom`: the newest published releases.
async fn releases(at: RepositoryVisit) -> PageResult {
    let list = format!("{}/releases?draft=false&limit={MAX_ENTRIES}", at.repository.api());
    let releases = at.visit.api.list::<Release>(&list).await?.items;
    let site = Site::of(&at);
    let entry = |release: Release| Entry {
        href: site.url(&format!("{}/releases/tag/{}", at.repository.path(), encode(release.tag_name.as_bytes()))),
        title: text(if release.name.is_empty() { &release.tag_name } else { &release.name }),
        updated: time(release.published_at.unwrap_or(release.created_at)),
        author: text(release.author.name()),
        content: text(&release.body),
    };
    let entries = releases.into_iter().map(entry).collect();
    let title = format!("Releases of {}", at.repository.full_name());
    respond(&at, &title, &format!("{}/releases", at.repository.path()), entries)
}

/// Builds absolute URLs.
struct Site<'a> {
    origin: &'a str,
    root: &'a str,
}

impl<'a> Site<'a> {
    fn of(at: &'a RepositoryVisit) -> Self {
        let site = &at.visit.shell.site;
        Self { origin: &site.origin, root: &site.root }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.root)
    }
}

/// Responds with a feed whose page is `html`, a path.
fn respond(at: &RepositoryVisit, title: &str, html: &str, entries: Vec<Entry>) -> PageResult {
    let site = Site::of(at);
    let path = at.visit.shell.here.split('?').next().unwrap_or_default();
    let newest = entries.iter().map(|entry| entry.updated.clone()).max();
    let feed = Feed {
        id: site.url(path),
        title: text(title),
        updated: newest.unwrap_or_else(|| time(at.repository.updated_at)),
        html: site.url(html),
        entries,
    };
    let xml = feed.render().map_err(|error| {
        tracing::error!("a feed cannot be rendered: {error}");
        ApiError::internal()
    })?;
    let body = Bytes::from(xml);
    let hash = blake3::hash(&body);
    let mut response = Response::new(Body::from(body.clone()));
    response.extensions_mut().insert(Rendered { body, hash });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/atom+xml; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.append(VARY, HeaderValue::from(COOKIE));
    protect(&mut response);
    Ok(response)
}

fn time(Time(time): Time) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns a text without the characters that XML does not allow, even escaped.
fn text(text: &str) -> String {
    let kept = &text[..text.floor_char_boundary(MAX_CONTENT_BYTES)];
    let is_allowed = |sign: &char| match sign {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        sign => *sign >= ' ',
    };
    kept.chars().filter(is_allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_escaped() {
        let entry = Entry {
            href: "https://h/a/b/commit/1".to_owned(),
            title: text("<b>&\u{0}\u{1b}\"x\"\u{ffff}"),
            updated: "2026-01-02T03:04:05Z".to_owned(),
            author: text("A & B"),
            content: text("one\ntwo ]]>"),
        };
        let feed = Feed {
            id: "https://h/a/b/tags.atom".to_owned(),
            title: "Tags".to_owned(),
            updated: "2026-01-02T03:04:05Z".to_owned(),
            html: "https://h/a/b/tags".to_owned(),
            entries: vec![entry],
        };
        let xml = feed.render().unwrap();
        assert!(xml.starts_with("<?xml version=\"1.0\""), "{xml}");
        assert!(!xml.contains("<b>") && !xml.contains("A & B") && !xml.contains("]]>"), "{xml}");
        assert!(xml.contains("one\ntwo") && !xml.contains(['\0', '\u{1b}', '\u{ffff}']), "{xml}");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(text(&"\u{20ac}".repeat(MAX_CONTENT_BYTES)).chars().count(), MAX_CONTENT_BYTES / 3);
    }
}
