//! The labels of an organization, and their forms.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::organization_frame::{OrganizationForm, OrganizationVisit, Tab};
use crate::http::error::ApiError;
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::Content;
use crate::pages::view::{Label, Organization};

const PAGE_SIZE: u64 = 50;
/// The color of a new label, until another is chosen.
const USUAL_COLOR: &str = "#808080";

/// What is in the fields of a label's form.
struct Draft {
    name: String,
    color: String,
    description: String,
}

#[derive(Template)]
#[template(path = "accounts/organization_settings/labels.html")]
struct Labels<'a> {
    organization: &'a Organization,
    path: String,
    labels: Vec<Label>,
    pager: Pager,
    token: FormToken,
    draft: Draft,
    message: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "accounts/organization_settings/label.html")]
struct EditPage<'a> {
    organization: &'a Organization,
    path: String,
    id: i64,
    token: FormToken,
    draft: Draft,
    message: Option<&'a str>,
}

impl Content for Labels<'_> {
    fn title(&self) -> String {
        "Labels".to_owned()
    }
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        "Edit label".to_owned()
    }
}

impl Draft {
    fn of_new() -> Self {
        Self { name: String::new(), color: USUAL_COLOR.to_owned(), description: String::new() }
    }

    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self { name: text("name"), color: text("color"), description: text("description") }
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "color": self.color, "description": self.description})
    }
}

/// The path of the page with the list.
fn labels_path(at: &OrganizationVisit) -> String {
    format!("{}/settings/labels", at.path())
}

/// The id of the label in the path.
fn id(at: &OrganizationVisit) -> PageResult<i64> {
    at.visit.segment(4).parse().ok().filter(|id| *id > 0).ok_or_else(PageError::not_found)
}

pub(super) async fn list(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    page(&at, Draft::of_new(), "").await
}

async fn page(at: &OrganizationVisit, draft: Draft, message: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/labels?page={}&limit={PAGE_SIZE}", at.api(), page_number(here));
    let listed = at.visit.api.list::<Label>(&path).await?;
    let content = Labels {
        organization: &at.organization,
        path: labels_path(at),
        pager: Pager::of(here, PAGE_SIZE, &listed),
        labels: listed.items,
        token: FormToken::of(&at.visit),
        draft,
        message: Some(message).filter(|message| !message.is_empty()),
    };
    at.form(Tab::Settings, &content, message)
}

pub(super) async fn create(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    match at.visit.api.change(Method::POST, &format!("{}/labels", at.api()), Some(draft.json())).await {
        Ok(_) => Ok(at.visit.redirect(&labels_path(&at))),
        Err(error) => page(&at, draft, &error.mistake()?).await,
    }
}

pub(super) async fn edit(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    let id = id(&at)?;
    let label: Label = at.visit.api.get(&format!("{}/labels/{id}", at.api())).await?;
    edit_page(&at, id, Draft { color: label.fill(), name: label.name, description: label.description }, "")
}

/// Changes or deletes a label.
pub(super) async fn save(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let (id, draft) = (id(&at)?, Draft::of_fields(&fields));
    let path = format!("{}/labels/{id}", at.api());
    let changed = if fields.is_checked("delete") {
        at.visit.api.change(Method::DELETE, &path, None).await
    } else if draft.name.trim().is_empty() {
        // The API takes an empty name for none.
        Err(ApiError::invalid_field("name", "required", "is required").into())
    } else {
        at.visit.api.change(Method::PATCH, &path, Some(draft.json())).await
    };
    match changed {
        Ok(_) => Ok(at.visit.redirect(&labels_path(&at))),
        Err(error) => edit_page(&at, id, draft, &error.mistake()?),
    }
}

fn edit_page(at: &OrganizationVisit, id: i64, draft: Draft, message: &str) -> PageResult {
    let content = EditPage {
        organization: &at.organization,
        path: labels_path(at),
        id,
        token: FormToken::of(&at.visit),
        draft,
        message: Some(message).filter(|message| !message.is_empty()),
    };
    at.form(Tab::Settings, &content, message)
}
