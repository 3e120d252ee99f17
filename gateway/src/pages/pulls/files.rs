//! The changes of a pull request with the comments on their lines, and the form of a review.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::view::Review;
use super::{Head, PullForm, PullTab, PullVisit, Rights, reviews};
use crate::pages::components::{filters, with_parameter};
use crate::pages::diff::{Diff, Remarks, ignored_whitespace};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};

#[derive(Template)]
#[template(path = "pulls/files.html")]
struct FilesPage<'a> {
    head: Head<'a>,
    title: String,
    diff: Diff,
    rights: Rights,
    pending: Option<&'a Review>,
    token: FormToken,
    /// What was typed, and why it was refused.
    body: &'a str,
    event: &'a str,
    message: Option<&'a str>,
}

impl Content for FilesPage<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

pub(super) async fn files(on: PullVisit) -> PageResult {
    page(&on, None).await
}

/// Submits a review: the pending one, if there is one.
pub(super) async fn review(PullForm { on, fields }: PullForm) -> PageResult {
    match submit(&on, &fields).await {
        Ok(made) => {
            let id = made["id"].as_i64().unwrap_or_default();
            Ok(on.visit().redirect(&format!("{}#pullrequestreview-{id}", on.issue.path())))
        }
        Err(error) => {
            let message = error.refusal()?;
            let on = PullVisit::of(on.at).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, page(&on, Some((&fields, message))).await?))
        }
    }
}

async fn submit(on: &PullVisit, fields: &Fields) -> PageResult<Value> {
    let (event, body) = (fields.text("event"), fields.text("body"));
    let (path, body) = match fields.number("pending") {
        Some(id) => (format!("{}/reviews/{id}", on.api()), json!({"event": event, "body": body})),
        None => {
            let review = json!({"event": event, "body": body, "commit_id": fields.text("commit_id")});
            (format!("{}/reviews", on.api()), review)
        }
    };
    on.visit().api.change(Method::POST, &path, Some(body)).await
}

async fn page(on: &PullVisit, refused: Option<(&Fields, String)>) -> PageResult {
    let (api, shell) = (&on.visit().api, &on.visit().shell);
    let path = format!("{}.diff", on.api());
    let (diff, reviews, comments, commit_count) = tokio::try_join!(
        Diff::load(api, &path, &shell.here),
        reviews::list(on),
        reviews::comments(on),
        on.commit_count()
    )?;
    let rights = on.rights();
    // A comment can be on any line of a file, also on one that the whole diff does not show.
    let form = rights.comment.then(|| {
        let form = format!("{}/files/comment?commit={}", on.issue.path(), on.pull.head.sha);
        with_parameter(&form, "whitespace", ignored_whitespace(&shell.here).unwrap_or_default())
    });
    let remarks = Remarks { html: reviews::on_lines(on, &reviews, &comments).await?, form };
    let source = format!("{}/src/commit/{}", on.at.repository.path(), on.pull.head.sha);
    let raw = format!("{}.diff", on.issue.path());
    let (fields, message) = refused.as_ref().map(|(fields, message)| (*fields, message.as_str())).unzip();
    on.page(&FilesPage {
        head: on.head(PullTab::Files, commit_count),
        title: format!("Changes of {}", on.title()),
        diff: diff.at(&shell.here, source, raw).with_remarks(remarks),
        rights,
        pending: reviews::pending(&reviews),
        token: FormToken::of(on.visit()),
        body: fields.map_or("", |fields| fields.text("body")),
        event: fields.map_or("COMMENT", |fields| fields.text("event")),
        message,
    })
}
