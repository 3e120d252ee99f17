//! The lines of a file with the commits that last changed them.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ferrite_api_types::links::encode_path;
use serde::Deserialize;

use super::revision::Revision;
use super::{RepositoryVisit, Tab};
use crate::pages::components::{Time, filters};
use crate::pages::error::{PageError, PageResult};
use crate::pages::expensive::expensive;
use crate::pages::layout::Content;
use crate::pages::pool::Group;
use crate::pages::view::Account;
use crate::pages::visit::PagesState;

/// Lines on the page.
const MAX_LINES: usize = 10_000;
/// Bytes of a line that are shown.
const MAX_LINE_BYTES: usize = 4_000;

#[derive(Template)]
#[template(path = "commits/blame.html")]
struct Page<'a> {
    revision: &'a Revision,
    path: &'a str,
    file: String,
    history: String,
    raw: String,
    commits: String,
    rows: Vec<Row>,
    is_cut: bool,
    /// Why the file cannot be blamed.
    message: Option<String>,
}

#[derive(Debug)]
struct Row {
    /// From 1.
    number: usize,
    text: String,
    /// On the first line of a range.
    range: Option<Range>,
}

/// Lines in a row that one commit changed last.
#[derive(Debug)]
struct Range {
    span: usize,
    href: String,
    subject: String,
    author_name: String,
    author: Option<Account>,
    date: Time,
    /// The blame before the commit.
    previous: Option<String>,
}

#[derive(Deserialize)]
struct Blame {
    ranges: Vec<BlameRange>,
    commits: BTreeMap<String, Summary>,
}

#[derive(Deserialize)]
struct BlameRange {
    count: usize,
    commit: String,
    previous: Option<Previous>,
}

#[derive(Deserialize)]
struct Previous {
    sha: String,
    path: String,
}

#[derive(Clone, Deserialize)]
struct Summary {
    subject: String,
    author_name: String,
    author: Option<Account>,
    date: Time,
}

impl Content for Page<'_> {
    fn title(&self) -> String {
        format!("Blame of {} at {}", self.path, self.revision.label())
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new().route("/{owner}/{repo}/blame/{*rest}", get(expensive(Group::Blame, blame)))
}

/// `/blame/{kind}/{name}/{path}`.
async fn blame(at: RepositoryVisit) -> PageResult {
    let (revision, path) = Revision::of(&at).await?;
    if path.is_empty() {
        return Err(PageError::not_found());
    }
    let (api, file) = (at.repository.api(), encode_path(path.as_bytes()));
    // Both are of the commit, so that they fit together.
    let blame = format!("{api}/blame/{file}?{}", revision.query());
    let text = format!("{api}/raw/{file}?{}", revision.query());
    let (rows, is_cut, message) = match at.visit.api.get::<Blame>(&blame).await {
        Ok(blame) => {
            let text = at.visit.api.text(&text).await?;
            let is_cut = text.lines().nth(MAX_LINES).is_some();
            (rows(blame, &text, &at.repository.path()), is_cut, None)
        }
        // It is no text, or too large.
        Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => (Vec::new(), false, Some(error.message())),
        Err(error) => return Err(error),
    };
    let content = Page {
        revision: &revision,
        path: &path,
        file: revision.path_of("src", &path),
        history: revision.path_of("commits", &path),
        raw: revision.path_of("raw", &path),
        commits: revision.path_of("commits", ""),
        rows,
        is_cut,
        message,
    };
    at.page(Tab::Code, &content)
}

/// Puts lines and ranges together. `repository` is the path of the repository.
fn rows(blame: Blame, text: &str, repository: &str) -> Vec<Row> {
    let Blame { ranges, commits } = blame;
    let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
    let (mut rows, mut rest) = (Vec::with_capacity(lines.len()), lines.as_slice());
    for range in ranges {
        let (lines, after) = rest.split_at(range.count.min(rest.len()));
        rest = after;
        let mut head = commits.get(&range.commit).map(|commit| range.head(commit.clone(), lines.len(), repository));
        for line in lines {
            rows.push(Row { number: rows.len() + 1, text: shown(line), range: head.take() });
        }
    }
    rows
}

impl BlameRange {
    fn head(&self, commit: Summary, span: usize, repository: &str) -> Range {
        let Summary { subject, author_name, author, date } = commit;
        let blame = |previous: &Previous| {
            format!("{repository}/blame/commit/{}/{}", previous.sha, encode_path(previous.path.as_bytes()))
        };
        Range {
            span,
            href: format!("{repository}/commit/{}", self.commit),
            subject: if subject.is_empty() { self.commit.clone() } else { subject },
            author_name,
            author,
            date,
            previous: self.previous.as_ref().map(blame),
        }
    }
}

fn shown(line: &str) -> String {
    let kept = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    let mark = if kept.len() < line.len() { "\u{2026}" } else { "" };
    format!("{}{mark}", kept.replace('\r', "\u{240d}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn blame() -> Blame {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let summary = |subject: &str| json!({"subject": subject, "author_name": "Ada", "author": null, "date": "2026-01-02T03:04:05Z"});
        let value = json!({
            "ranges": [
                {"start": 1, "count": 2, "commit": one, "previous": null},
                {"start": 3, "count": 1, "commit": two, "previous": {"sha": one, "path": "old name"}},
            ],
            "commits": {one: summary("One"), two: summary("")},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_range_is_named_on_its_first_line() {
        let rows = rows(blame(), "a\nb\r\nc", "/ada/x");
        let shown: Vec<_> = rows.iter().map(|row| (row.number, row.text.as_str(), row.range.is_some())).collect();
        assert_eq!(shown, [(1, "a", true), (2, "b", false), (3, "c", true)]);
        let heads: Vec<_> = rows.iter().filter_map(|row| row.range.as_ref()).collect();
        assert_eq!((heads[0].span, heads[0].subject.as_str(), &heads[0].previous), (2, "One", &None));
        assert_eq!(heads[1].subject, "2".repeat(40), "a link has a text");
        let previous = format!("/ada/x/blame/commit/{}/old%20name", "1".repeat(40));
        assert_eq!(heads[1].previous, Some(previous));
    }

    #[test]
    fn fewer_lines_than_ranges_are_no_failure() {
        let rows = rows(blame(), "a", "/ada/x");
        assert_eq!((rows.len(), rows[0].range.as_ref().map(|range| range.span)), (1, Some(1)));
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(shown(&"\u{e4}".repeat(3_000)), format!("{}\u{2026}", "\u{e4}".repeat(2_000)));
        assert_eq!(shown("short"), "short");
    }
}
