//! Atom feeds (RFC 4287) of what a page shows.

use askama::Template;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, VARY};
use axum::response::Response;
use bytes::Bytes;

use super::components::Time;
use super::error::PageResult;
use super::layout::Rendered;
use super::view::activities::Activity;
use super::visit::Visit;
use crate::http::error::ApiError;

pub(super) const MAX_ENTRIES: usize = 20;
/// The ending of the names of feeds.
pub(super) const ENDING: &str = ".atom";
/// Bytes of a text in an entry.
const MAX_CONTENT_BYTES: usize = 64 << 10;
/// When nothing has happened yet.
const BEGINNING: &str = "1970-01-01T00:00:00Z";

#[derive(Template)]
#[template(path = "feed.xml")]
struct Feed {
    /// The URL of the feed.
    id: String,
    title: String,
    updated: String,
    /// The URL of the page.
    html: String,
    entries: Vec<FeedEntry>,
}

struct FeedEntry {
    id: String,
    href: String,
    title: String,
    updated: String,
    author: String,
    content: String,
}

/// What a feed tells. Texts may have any characters.
pub(super) struct Entry {
    /// The path of its page.
    pub(super) path: String,
    /// What follows the URL of the page in the id of the entry, if several have that page.
    pub(super) fragment: String,
    pub(super) title: String,
    pub(super) updated: Time,
    pub(super) author: String,
    pub(super) content: String,
}

/// Responds with a feed whose page is `html`, a path.
pub(super) fn respond(visit: &Visit, title: &str, html: &str, entries: Vec<Entry>) -> PageResult {
    let url = |path: &str| format!("{}{}{path}", visit.shell.site.origin, visit.shell.site.root);
    let path = visit.shell.here.split('?').next().unwrap_or_default();
    let newest = entries.iter().map(|entry| entry.updated).max();
    let entry = |entry: Entry| {
        let href = url(&entry.path);
        FeedEntry {
            id: format!("{href}{}", entry.fragment),
            href,
            title: text(&entry.title),
            updated: time(entry.updated),
            author: text(&entry.author),
            content: text(&entry.content),
        }
    };
    let feed = Feed {
        id: url(path),
        title: text(title),
        updated: newest.map_or_else(|| BEGINNING.to_owned(), time),
        html: url(html),
        entries: entries.into_iter().map(entry).collect(),
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
    Ok(response)
}

/// Responds with a feed of activities.
pub(super) fn activities(visit: &Visit, title: &str, html: &str, activities: Vec<Activity>) -> PageResult {
    let entry = |activity: Activity| {
        let summary = activity.summary();
        Entry {
            path: activity.path(),
            fragment: format!("?activity={}", activity.id),
            title: format!("{} {summary}", activity.actor()),
            updated: activity.created,
            author: activity.actor().to_owned(),
            content: summary,
        }
    };
    respond(visit, title, html, activities.into_iter().map(entry).collect())
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
        let entry = FeedEntry {
            id: "https://h/a/b/commit/1?x=1&y".to_owned(),
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
        assert!(!xml.contains("<b>") && !xml.contains("A & B") && !xml.contains("]]>") && !xml.contains("&y"), "{xml}");
        assert!(xml.contains("one\ntwo") && !xml.contains(['\0', '\u{1b}', '\u{ffff}']), "{xml}");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(text(&"\u{20ac}".repeat(MAX_CONTENT_BYTES)).chars().count(), MAX_CONTENT_BYTES / 3);
    }
}
