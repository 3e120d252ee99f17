//! The settings of an organization, for its owners, and its deletion.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::organization_frame::{OrganizationForm, OrganizationVisit, Tab};
use super::organizations::VISIBILITIES;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken, changes};
use crate::pages::layout::Content;
use crate::pages::view::{Account, Organization};

const NOT_NAMED: &str = "Type the name of the organization to delete it.";

#[derive(Template)]
#[template(path = "accounts/organization_settings/general.html")]
struct General<'a> {
    organization: &'a Organization,
    account: Account,
    path: String,
    draft: &'a Draft,
    token: FormToken,
    message: &'a str,
}

#[derive(Template)]
#[template(path = "accounts/organization_settings/delete.html")]
struct Deletion<'a> {
    organization: &'a Organization,
    path: String,
    token: FormToken,
    message: &'a str,
}

/// What is in the fields.
struct Draft {
    full_name: String,
    description: String,
    website: String,
    location: String,
    visibility: String,
    repo_admin_change_team_access: bool,
}

impl Content for General<'_> {
    fn title(&self) -> String {
        "Settings".to_owned()
    }
}

impl Content for Deletion<'_> {
    fn title(&self) -> String {
        "Delete".to_owned()
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).trim().to_owned();
        Self {
            full_name: text("full_name"),
            description: text("description"),
            website: text("website"),
            location: text("location"),
            visibility: text("visibility"),
            repo_admin_change_team_access: fields.is_checked("repo_admin_change_team_access"),
        }
    }

    fn of_organization(organization: &Organization) -> Self {
        Self {
            full_name: organization.full_name.clone(),
            description: organization.description.clone(),
            website: organization.website.clone(),
            location: organization.location.clone(),
            visibility: organization.visibility.clone(),
            repo_admin_change_team_access: organization.repo_admin_change_team_access,
        }
    }

    fn has_visibility(&self, word: &str) -> bool {
        self.visibility == word
    }

    fn json(&self) -> Value {
        json!({
            "full_name": self.full_name, "description": self.description, "website": self.website,
            "location": self.location, "visibility": self.visibility,
            "repo_admin_change_team_access": self.repo_admin_change_team_access,
        })
    }
}

pub(super) async fn show(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    page(&at, "")
}

/// The page with the settings as they are.
pub(super) fn page(at: &OrganizationVisit, message: &str) -> PageResult {
    general(at, &Draft::of_organization(&at.organization), message)
}

fn general(at: &OrganizationVisit, draft: &Draft, message: &str) -> PageResult {
    let content = General {
        organization: &at.organization,
        account: at.organization.clone().into(),
        path: at.path(),
        draft,
        token: FormToken::of(&at.visit),
        message,
    };
    at.form(Tab::Settings, &content, message)
}

pub(super) async fn save(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    let changed = changes(draft.json(), &Draft::of_organization(&at.organization).json());
    match at.visit.api.change(Method::PATCH, &at.api(), Some(changed)).await {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/settings", at.path()))),
        Err(error) => general(&at, &draft, &error.mistake()?),
    }
}

pub(super) async fn ask_to_delete(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    deletion(&at, "")
}

fn deletion(at: &OrganizationVisit, message: &str) -> PageResult {
    let content =
        Deletion { organization: &at.organization, path: at.path(), token: FormToken::of(&at.visit), message };
    at.form(Tab::Settings, &content, message)
}

pub(super) async fn delete(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    if !at.organization.is_named(fields.text("name").trim()) {
        return deletion(&at, NOT_NAMED);
    }
    match at.visit.api.change(Method::DELETE, &at.api(), None).await {
        Ok(_) => Ok(at.visit.redirect("/explore/organizations")),
        Err(error) => deletion(&at, &error.mistake()?),
    }
}
