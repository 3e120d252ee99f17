//! The form below a conversation: a comment, its preview, and closing or reopening.

use askama::Template;
use axum::http::Method;
use axum::response::Response;
use serde_json::json;

use super::view::{Issue, can_change, can_comment};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::repositories::RepositoryVisit;

/// What the visitor typed, and what became of it.
#[derive(Clone, Debug, Default)]
pub(in crate::pages) struct Draft {
    pub(in crate::pages) body: String,
    /// Whether the page shows it rendered.
    pub(in crate::pages) is_preview: bool,
    /// Why it was not sent.
    pub(in crate::pages) message: Option<String>,
}

/// The form; displays as HTML.
#[derive(Template)]
#[template(path = "issues/reply.html")]
pub(in crate::pages) struct Reply {
    action: String,
    token: FormToken,
    noun: &'static str,
    draft: Draft,
    /// The text as HTML.
    preview: Option<String>,
    can_comment: bool,
    can_change: bool,
    is_open: bool,
    is_archived: bool,
    sign_in: Option<String>,
}

/// What sending the form led to.
pub(in crate::pages) enum Outcome {
    Done(Response),
    /// The page is shown again.
    Again(Draft),
}

impl Reply {
    /// `preview` is the text of `draft` as HTML.
    pub(in crate::pages) fn new(at: &RepositoryVisit, issue: &Issue, draft: Draft, preview: Option<String>) -> Self {
        let shell = &at.visit.shell;
        let is_merged = issue.pull_request.is_some_and(|pull| pull.merged);
        Self {
            action: issue.path(),
            token: FormToken::of(&at.visit),
            noun: issue.noun(),
            draft,
            preview,
            can_comment: can_comment(at),
            can_change: can_change(at, issue) && !is_merged,
            is_open: issue.is_open(),
            is_archived: at.repository.archived,
            sign_in: shell.viewer.is_none().then(|| shell.sign_in()),
        }
    }
}

/// Does what the form says: comments, changes the state, or both.
pub(in crate::pages) async fn send(at: &RepositoryVisit, issue: &Issue, fields: &Fields) -> PageResult<Outcome> {
    let (body, state) = (fields.text("body"), fields.text("state"));
    let again = |body: &str, is_preview: bool, message: Option<String>| {
        Ok(Outcome::Again(Draft { body: body.to_owned(), is_preview, message }))
    };
    if fields.is_checked("preview") {
        return again(body, true, None);
    }
    let has_comment = !body.trim().is_empty();
    if !has_comment && state.is_empty() {
        return again(body, false, Some("Write a comment first.".to_owned()));
    }
    let api = &at.visit.api;
    let path = format!("{}/issues/{}", at.repository.api(), issue.number);
    let mut target = issue.path();
    if has_comment {
        match api.change(Method::POST, &format!("{path}/comments"), Some(json!({"body": body}))).await {
            Ok(made) => target = issue.path_of_new_comment(made["id"].as_i64().unwrap_or_default()),
            Err(error) => return again(body, false, Some(error.mistake()?)),
        }
    }
    if !state.is_empty()
        && let Err(error) = api.change(Method::PATCH, &path, Some(json!({"state": state}))).await
    {
        // The comment is sent: typed again, it would be there twice.
        let kept = if has_comment { "" } else { body };
        return again(kept, false, Some(error.mistake()?));
    }
    Ok(Outcome::Done(at.visit.redirect(&target)))
}
