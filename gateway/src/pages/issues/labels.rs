//! The labels of a repository, and their forms.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::list::Kind;
use super::view::is_writer;
use super::{RepositoryForm, number};
use crate::http::error::ApiError;
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::Label;

const PAGE_SIZE: u64 = 50;
/// The color of a new label, until another is chosen.
const USUAL_COLOR: &str = "#808080";
/// A part of the API's URLs of the labels that belong to the organization.
const OF_ORGANIZATION: &str = "/api/v1/orgs/";

#[derive(Debug, Deserialize)]
struct ListedLabel {
    #[serde(flatten)]
    label: Label,
    url: String,
}

/// What is in the fields of a label's form.
struct Draft {
    name: String,
    color: String,
    description: String,
}

#[derive(Template)]
#[template(path = "issues/labels.html")]
struct Labels {
    kind: Kind,
    repository: String,
    labels: Vec<ListedLabel>,
    pager: Pager,
    is_writer: bool,
    token: FormToken,
    draft: Draft,
    message: Option<String>,
}

#[derive(Template)]
#[template(path = "issues/label_edit.html")]
struct EditPage {
    repository: String,
    action: String,
    token: FormToken,
    draft: Draft,
    message: Option<String>,
}

impl Content for Labels {
    fn title(&self) -> String {
        "Labels".to_owned()
    }
}

impl Content for EditPage {
    fn title(&self) -> String {
        "Edit label".to_owned()
    }
}

impl ListedLabel {
    /// Those of the organization are changed there.
    fn is_own(&self) -> bool {
        !self.url.contains(OF_ORGANIZATION)
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self { name: text("name"), color: text("color"), description: text("description") }
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "color": self.color, "description": self.description})
    }
}

impl Default for Draft {
    fn default() -> Self {
        Self { name: String::new(), color: USUAL_COLOR.to_owned(), description: String::new() }
    }
}

pub(super) async fn list(at: RepositoryVisit) -> PageResult {
    page(&at, Draft::default(), None).await
}

pub(super) async fn create(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    match at.visit.api.change(Method::POST, &format!("{}/labels", at.repository.api()), Some(draft.json())).await {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/labels", at.repository.path()))),
        Err(error) => page(&at, draft, Some(error.mistake()?)).await,
    }
}

pub(super) async fn edit(at: RepositoryVisit) -> PageResult {
    at.visit.signed_in()?;
    if !is_writer(&at) {
        let message = "only users with write permission can change labels";
        return Err(PageError::from(ApiError::new(StatusCode::FORBIDDEN, message)));
    }
    let id = number(&at)?;
    let label: Label = at.visit.api.get(&api_path(&at, id)).await?;
    let draft = Draft { color: label.fill(), name: label.name, description: label.description };
    edit_page(&at, id, draft, None)
}

pub(super) async fn save(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let (id, draft) = (number(&at)?, Draft::of_fields(&fields));
    let (api, path) = (&at.visit.api, api_path(&at, id));
    let changed = if fields.is_checked("delete") {
        api.change(Method::DELETE, &path, None).await
    } else if draft.name.trim().is_empty() {
        // The API takes an empty name for none.
        Err(ApiError::invalid_field("name", "required", "is required").into())
    } else {
        api.change(Method::PATCH, &path, Some(draft.json())).await
    };
    match changed {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/labels", at.repository.path()))),
        Err(error) => edit_page(&at, id, draft, Some(error.mistake()?)),
    }
}

fn api_path(at: &RepositoryVisit, id: i64) -> String {
    format!("{}/labels/{id}", at.repository.api())
}

async fn page(at: &RepositoryVisit, draft: Draft, message: Option<String>) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/labels?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let labels = at.visit.api.list::<ListedLabel>(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &labels);
    let status = status(message.as_ref());
    let kind = Kind::of(at);
    let content = Labels {
        kind,
        repository: at.repository.path(),
        labels: labels.items,
        pager,
        is_writer: is_writer(at),
        token: FormToken::of(&at.visit),
        draft,
        message,
    };
    Ok(with_status(status, at.page(kind.tab(), &content)?))
}

fn edit_page(at: &RepositoryVisit, id: i64, draft: Draft, message: Option<String>) -> PageResult {
    let status = status(message.as_ref());
    let repository = at.repository.path();
    let action = format!("{repository}/labels/{id}/edit");
    let content = EditPage { repository, action, token: FormToken::of(&at.visit), draft, message };
    Ok(with_status(status, at.page(Kind::of(at).tab(), &content)?))
}

fn status(message: Option<&String>) -> StatusCode {
    if message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }
}
