//! The forms of milestones.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::list::Kind;
use super::view::{Milestone, end_of_day, is_writer};
use super::{RepositoryForm, number};
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::markdown::render_many;
use crate::pages::repositories::RepositoryVisit;

#[derive(Template)]
#[template(path = "issues/milestone_edit.html")]
struct EditPage<'a> {
    heading: &'static str,
    action: String,
    back: String,
    token: FormToken,
    draft: &'a Draft,
    /// The milestone that is changed; `None` for a new one.
    milestone: Option<&'a Milestone>,
    preview: Option<String>,
    message: Option<String>,
}

/// What is in the fields.
#[derive(Default)]
struct Draft {
    title: String,
    description: String,
    due_on: String,
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self { title: text("title"), description: text("description"), due_on: text("due_on") }
    }

    fn of_milestone(milestone: &Milestone) -> Self {
        Self {
            title: milestone.title.clone(),
            description: milestone.description.clone(),
            due_on: milestone.due_on.map(|due| due.date().to_string()).unwrap_or_default(),
        }
    }

    /// The request for a change, or for a new milestone. `old` is what it was: the form has only the
    /// day that is due, so the time of day stays with it.
    fn json(&self, old: &Self) -> serde_json::Value {
        let mut body = json!({"title": self.title, "description": self.description});
        if self.due_on != old.due_on {
            body["due_on"] = json!(end_of_day(&self.due_on));
        }
        body
    }
}

pub(super) async fn new(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    page(&at, &Draft::default(), None, None, None)
}

pub(super) async fn create(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    if let Some(html) = preview(&at, &fields, &draft).await? {
        return page(&at, &draft, None, Some(html), None);
    }
    let path = format!("{}/milestones", at.repository.api());
    match at.visit.api.change(Method::POST, &path, Some(draft.json(&Draft::default()))).await {
        Ok(made) => Ok(at.visit.redirect(&place(&at, made["id"].as_i64().unwrap_or_default()))),
        Err(error) => page(&at, &draft, None, None, Some(error.mistake()?)),
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    require_writer(&at)?;
    let milestone = read(&at).await?;
    page(&at, &Draft::of_milestone(&milestone), Some(&milestone), None, None)
}

/// Changes, closes, reopens or deletes a milestone.
pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let milestone = read(&at).await?;
    let old = Draft::of_milestone(&milestone);
    let state = fields.text("state");
    let draft = if state.is_empty() { Draft::of_fields(&fields) } else { Draft::of_milestone(&milestone) };
    if let Some(html) = preview(&at, &fields, &draft).await? {
        return page(&at, &draft, Some(&milestone), Some(html), None);
    }
    let (api, path) = (&at.visit.api, format!("{}/milestones/{}", at.repository.api(), milestone.id));
    let is_deletion = fields.is_checked("delete");
    let changed = if is_deletion {
        api.change(Method::DELETE, &path, None).await
    } else if !state.is_empty() {
        api.change(Method::PATCH, &path, Some(json!({"state": state}))).await
    } else if draft.title.trim().is_empty() {
        // The API takes an empty title for none.
        Err(ApiError::invalid_field("title", "required", "is required").into())
    } else {
        api.change(Method::PATCH, &path, Some(draft.json(&old))).await
    };
    match changed {
        Ok(_) if is_deletion => Ok(at.visit.redirect(&format!("{}/milestones", at.repository.path()))),
        Ok(_) => Ok(at.visit.redirect(&place(&at, milestone.id))),
        Err(error) => page(&at, &draft, Some(&milestone), None, Some(error.mistake()?)),
    }
}

async fn read(at: &RepositoryVisit) -> PageResult<Milestone> {
    at.visit.api.get(&format!("{}/milestones/{}", at.repository.api(), number(at)?)).await
}

fn place(at: &RepositoryVisit, id: i64) -> String {
    format!("{}/milestone/{id}", at.repository.path())
}

fn require_writer(at: &RepositoryVisit) -> PageResult<()> {
    at.visit.signed_in()?;
    let message = "only users with write permission can change milestones";
    if is_writer(at) { Ok(()) } else { Err(PageError::from(ApiError::new(StatusCode::FORBIDDEN, message))) }
}

async fn preview(at: &RepositoryVisit, fields: &Fields, draft: &Draft) -> PageResult<Option<String>> {
    if !fields.is_checked("preview") {
        return Ok(None);
    }
    let html = render_many(&at.visit, vec![draft.description.clone()], &at.repository.full_name()).await?;
    Ok(Some(html.concat()))
}

fn page(
    at: &RepositoryVisit,
    draft: &Draft,
    milestone: Option<&Milestone>,
    preview: Option<String>,
    message: Option<String>,
) -> PageResult {
    let status = if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let list = format!("{}/milestones", at.repository.path());
    let (heading, action, back) = match milestone {
        Some(milestone) => ("Edit milestone", format!("{list}/{}/edit", milestone.id), place(at, milestone.id)),
        None => ("New milestone", format!("{list}/new"), list),
    };
    let content =
        EditPage { heading, action, back, token: FormToken::of(&at.visit), draft, milestone, preview, message };
    Ok(with_status(status, at.page(Kind::of(at).tab(), &content)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_due_date_is_sent_only_if_it_changes() {
        let draft = |due_on: &str| Draft { title: "1.0".into(), due_on: due_on.into(), ..Draft::default() };
        let unchanged = json!({"title": "1.0", "description": ""});
        assert_eq!(draft("2026-03-01").json(&draft("2026-03-01")), unchanged);
        assert_eq!(draft("").json(&Draft::default()), unchanged);
        assert_eq!(draft("").json(&draft("2026-03-01"))["due_on"], "");
        assert_eq!(draft("2026-03-02").json(&draft("2026-03-01"))["due_on"], "2026-03-02T23:59:59Z");
    }
}
