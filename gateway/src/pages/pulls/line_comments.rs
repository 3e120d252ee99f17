//! The form of a comment on a line.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{PullForm, PullVisit, reviews};
use crate::http::error::ApiError;
use crate::pages::components::{parameter, with_parameter};
use crate::pages::diff::{Diff, Row, Style, anchor, ignored_whitespace};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;

/// Rows of the diff above the form.
const SHOWN_ROWS: usize = 6;

#[derive(Template)]
#[template(path = "pulls/comment_form.html")]
struct CommentForm<'a> {
    title: String,
    /// The tab of files.
    files: String,
    /// The path of this form.
    action: &'a str,
    place: &'a Place,
    rows: Vec<Row>,
    has_pending: bool,
    token: FormToken,
    body: &'a str,
    line_count: &'a str,
    preview: Option<String>,
    message: Option<&'a str>,
}

impl Content for CommentForm<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

/// A line of the diff.
struct Place {
    path: String,
    line: u64,
    is_old_side: bool,
    /// The head when the link to the form was shown.
    commit: String,
}

impl Place {
    fn of(here: &str) -> PageResult<Self> {
        let text = |name| parameter(here, name).unwrap_or_default();
        let line = text("line").parse().ok().filter(|line| *line > 0);
        let place = Self {
            path: text("path"),
            line: line.ok_or_else(PageError::not_found)?,
            is_old_side: text("side") == "old",
            commit: text("commit"),
        };
        if place.path.is_empty() { Err(PageError::not_found()) } else { Ok(place) }
    }

    fn side(&self) -> &'static str {
        if self.is_old_side { " before the change" } else { "" }
    }

    fn is_in(&self, row: &Row) -> bool {
        let side = if self.is_old_side { &row.old } else { &row.new };
        side.as_ref().is_some_and(|side| side.number == self.line)
    }

    fn comment(&self, body: &str, line_count: i64) -> Value {
        let position = if self.is_old_side { "old_position" } else { "new_position" };
        let mut comment = json!({"path": self.path, "body": body, "line_count": line_count});
        comment[position] = self.line.into();
        comment
    }

    /// The anchor of the line in the tab of files.
    fn anchor(&self) -> String {
        format!("{}-{}{}", anchor(self.path.as_bytes()), if self.is_old_side { 'L' } else { 'R' }, self.line)
    }
}

pub(super) async fn form(on: PullVisit) -> PageResult {
    on.visit().signed_in()?;
    if !on.rights().comment {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "nobody can comment in an archived repository").into());
    }
    page(&on, &Place::of(&on.visit().shell.here)?, None, None).await
}

/// Adds the comment to the pending review, or submits it as a review of its own.
pub(super) async fn create(PullForm { on, fields }: PullForm) -> PageResult {
    let place = Place::of(&on.visit().shell.here)?;
    let body = fields.text("body");
    if fields.is_checked("preview") {
        return page(&on, &place, Some(&fields), None).await;
    }
    let event = if fields.text("event") == "COMMENT" { "COMMENT" } else { "PENDING" };
    let comment = place.comment(body, fields.number("line_count").unwrap_or(1));
    let review = json!({"event": event, "commit_id": place.commit, "comments": [comment]});
    match on.visit().api.change(Method::POST, &format!("{}/reviews", on.api()), Some(review)).await {
        Ok(_) => Ok(on.visit().redirect(&format!("{}#{}", files(&on), place.anchor()))),
        Err(error) => {
            let message = error.refusal()?;
            let shown = page(&on, &place, Some(&fields), Some(&message)).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, shown))
        }
    }
}

async fn page(on: &PullVisit, place: &Place, fields: Option<&Fields>, message: Option<&str>) -> PageResult {
    let path = format!("{}.diff", on.api());
    // The lines are those that the comment keeps.
    let (diff, reviews) = tokio::try_join!(Diff::fetch(&on.visit().api, &path, Style::Unified), reviews::list(on))?;
    let file = diff.files.into_iter().find(|file| file.path_of(place.is_old_side) == place.path);
    let rows = file.map(|file| rows(file.rows, place)).unwrap_or_default();
    // What was typed is not lost if the line has gone meanwhile: the API decides about it.
    if rows.is_empty() && fields.is_none() {
        return Err(ApiError::not_found("the changes of this pull request do not have this line").into());
    }
    let preview = match fields.filter(|fields| fields.is_checked("preview")) {
        Some(fields) => {
            render_many(on.visit(), vec![fields.text("body").to_owned()], &on.at.repository.full_name()).await?.pop()
        }
        None => None,
    };
    let shown = CommentForm {
        title: format!("Comment on {}", on.title()),
        files: files(on),
        action: &on.visit().shell.here,
        rows,
        place,
        has_pending: reviews::pending(&reviews).is_some(),
        token: FormToken::of(on.visit()),
        body: fields.map_or("", |fields| fields.text("body")),
        line_count: fields.map_or("1", |fields| fields.text("line_count")),
        preview,
        message,
    };
    on.page(&shown)
}

/// Returns the path of the tab of files, with the changes that it showed.
fn files(on: &PullVisit) -> String {
    let ignored = ignored_whitespace(&on.visit().shell.here).unwrap_or_default();
    with_parameter(&format!("{}/files", on.issue.path()), "whitespace", ignored)
}

/// Returns the row of the line and those above it in its hunk; none if the diff does not show it.
fn rows(mut rows: Vec<Row>, place: &Place) -> Vec<Row> {
    let Some(last) = rows.iter().position(|row| place.is_in(row)) else { return Vec::new() };
    rows.truncate(last + 1);
    let heading = rows.iter().rposition(|row| row.heading.is_some()).map_or(0, |heading| heading + 1);
    rows.split_off(heading.max((last + 1).saturating_sub(SHOWN_ROWS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n";

    #[test]
    fn a_place_is_a_line_of_a_side() {
        let place = Place::of("/o/r/pulls/7/files/comment?path=a%2Fb&line=3&side=old&commit=c").unwrap();
        assert_eq!((place.path.as_str(), place.line, place.is_old_side, place.commit.as_str()), ("a/b", 3, true, "c"));
        assert_eq!(place.comment("x", 2), json!({"path": "a/b", "body": "x", "line_count": 2, "old_position": 3}));
        for bad in ["line=0&path=a", "line=x&path=a", "path=a", "line=1"] {
            assert!(Place::of(&format!("/p?{bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_lines_above_are_shown() {
        let shown = |line, side: &str| {
            let place = Place::of(&format!("/p?path=a&line={line}&side={side}")).unwrap();
            let file = Diff::parse(DIFF, Style::Unified).files.remove(0);
            rows(file.rows, &place).iter().map(|row| row.line().unwrap().text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown(2, "new"), ["one", "two", "zwei"]);
        assert_eq!(shown(2, "old"), ["one", "two"]);
        assert!(shown(9, "new").is_empty());
    }
}
