//! The forms of a new issue and of a change.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::draft::{Choices, Draft};
use super::issue::{read, tab};
use super::view::{Issue, can_change, can_comment, is_writer};
use super::{RepositoryForm, number};
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;
use crate::pages::repositories::{RepositoryVisit, Tab};

#[derive(Template)]
#[template(path = "issues/edit.html")]
struct Edit<'a> {
    heading: String,
    /// The page of the form, and the one to return to.
    action: String,
    back: String,
    token: FormToken,
    submit: &'static str,
    draft: &'a Draft,
    /// `None` for those who can only write title and text.
    choices: Option<Choices>,
    preview: Option<String>,
    message: Option<String>,
}

impl Content for Edit<'_> {
    fn title(&self) -> String {
        self.heading.clone()
    }
}

/// Why a form is shown.
#[derive(Default)]
struct Shown {
    is_preview: bool,
    message: Option<String>,
}

impl Shown {
    fn status(&self) -> StatusCode {
        if self.message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }
    }
}

pub(super) async fn new(at: RepositoryVisit) -> PageResult {
    at.visit.signed_in()?;
    require(can_comment(&at), "nobody can open issues in an archived repository")?;
    page(&at, &Draft::of_query(&at.visit.shell.here), None, Shown::default()).await
}

pub(super) async fn create(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    if fields.is_checked("preview") {
        return page(&at, &draft, None, Shown { is_preview: true, message: None }).await;
    }
    let path = format!("{}/issues", at.repository.api());
    match at.visit.api.change(Method::POST, &path, Some(draft.new_issue(is_writer(&at)))).await {
        Ok(made) => {
            let number = made["number"].as_i64().unwrap_or_default();
            Ok(at.visit.redirect(&format!("{}/issues/{number}", at.repository.path())))
        }
        Err(error) => page(&at, &draft, None, Shown { is_preview: false, message: Some(error.mistake()?) }).await,
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    at.visit.signed_in()?;
    let issue = read(&at, number(&at)?).await?;
    require(can_change(&at, &issue), "only its author and users with write permission can change this")?;
    page(&at, &Draft::of_issue(&issue), Some(&issue), Shown::default()).await
}

pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let issue = read(&at, number(&at)?).await?;
    let draft = Draft::of_fields(&fields);
    if fields.is_checked("preview") {
        return page(&at, &draft, Some(&issue), Shown { is_preview: true, message: None }).await;
    }
    match change(&at, &issue, &draft).await {
        Ok(()) => Ok(at.visit.redirect(&issue.path())),
        Err(error) => {
            page(&at, &draft, Some(&issue), Shown { is_preview: false, message: Some(error.mistake()?) }).await
        }
    }
}

/// Changes the issue, and its labels if they differ. Sending the form again does no harm.
async fn change(at: &RepositoryVisit, issue: &Issue, draft: &Draft) -> PageResult<()> {
    if draft.title.trim().is_empty() {
        // The API takes a blank title for none.
        return Err(ApiError::invalid_field("title", "required", "is required").into());
    }
    let path = format!("{}/issues/{}", at.repository.api(), issue.number);
    let is_writer = is_writer(at);
    let changed = draft.changed_issue(&Draft::of_issue(issue), is_writer);
    at.visit.api.change(Method::PATCH, &path, Some(changed)).await?;
    let (mut new, mut old) = (draft.label_ids(), issue.labels.iter().map(|label| label.id).collect::<Vec<_>>());
    new.sort_unstable();
    old.sort_unstable();
    if is_writer && new != old {
        at.visit.api.change(Method::PUT, &format!("{path}/labels"), Some(json!({"labels": new}))).await?;
    }
    Ok(())
}

fn require(is_allowed: bool, message: &'static str) -> PageResult<()> {
    if is_allowed { Ok(()) } else { Err(PageError::from(ApiError::new(StatusCode::FORBIDDEN, message))) }
}

async fn page(at: &RepositoryVisit, draft: &Draft, issue: Option<&Issue>, shown: Shown) -> PageResult {
    let choices = match is_writer(at) {
        true => Some(Choices::read(at, draft, issue).await?),
        false => None,
    };
    let preview = match shown.is_preview {
        true => render_many(&at.visit, vec![draft.body.clone()], &at.repository.full_name()).await?.pop(),
        false => None,
    };
    let list = format!("{}/issues", at.repository.path());
    let (heading, action, back, submit) = match issue {
        Some(issue) => {
            let back = issue.path();
            (format!("Edit #{}", issue.number), format!("{list}/{}/edit", issue.number), back, "Save")
        }
        None => ("New issue".to_owned(), format!("{list}/new"), list, "Open issue"),
    };
    let status = shown.status();
    let token = FormToken::of(&at.visit);
    let message = shown.message;
    let content = Edit { heading, action, back, token, submit, draft, choices, preview, message };
    Ok(with_status(status, at.page(issue.map_or(Tab::Issues, tab), &content)?))
}
