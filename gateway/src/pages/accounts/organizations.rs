//! The page of an organization, and the form for a new one.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::organization_frame::{OrganizationVisit, Tab, membership};
use super::{REPOSITORIES_PER_PAGE, repositories_of};
use crate::pages::components::{Pager, filters, parameter};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::{Organization, Repository};
use crate::pages::visit::Visit;

pub(super) const VISIBILITIES: [(&str, &str); 3] = [
    ("public", "Everyone can see it"),
    ("limited", "Users who are signed in can see it"),
    ("private", "Only members can see it"),
];

#[derive(Template)]
#[template(path = "accounts/organization.html")]
struct OrganizationPage<'a> {
    organization: &'a Organization,
    is_member: bool,
    query: String,
    repositories: Vec<Repository>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "accounts/new_organization.html")]
struct NewOrganization<'a> {
    token: FormToken,
    fields: &'a Fields,
    error: &'a str,
}

impl Content for OrganizationPage<'_> {
    fn title(&self) -> String {
        String::new()
    }
}

impl Content for NewOrganization<'_> {
    fn title(&self) -> String {
        "New organization".to_owned()
    }
}

pub(super) async fn repositories(visit: Visit, organization: Organization) -> PageResult {
    let (found, membership) =
        tokio::try_join!(repositories_of(&visit, organization.id), membership(&visit, &organization.username))?;
    let at = OrganizationVisit::with(visit, organization, membership);
    let here = &at.visit.shell.here;
    at.page(
        Tab::Repositories,
        &OrganizationPage {
            organization: &at.organization,
            is_member: at.is_member(),
            query: parameter(here, "q").unwrap_or_default(),
            pager: Pager::of(here, REPOSITORIES_PER_PAGE, &found),
            repositories: found.items,
        },
    )
}

pub(super) async fn show_form(visit: Visit) -> PageResult {
    visit.signed_in()?;
    form(&visit, &Fields::default(), "")
}

fn form(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    visit.page(&NewOrganization { token: FormToken::of(visit), fields, error })
}

pub(super) async fn create(Form { visit, fields }: Form) -> PageResult {
    let text = |name| fields.text(name).trim();
    let body = json!({
        "username": text("username"), "full_name": text("full_name"), "description": text("description"),
        "website": text("website"), "location": text("location"), "visibility": text("visibility"),
    });
    match visit.api.change(Method::POST, "orgs", Some(body)).await {
        Ok(made) => Ok(visit.redirect(&format!("/{}", made["username"].as_str().unwrap_or_default()))),
        Err(error) => {
            let message = error.mistake()?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, form(&visit, &fields, &message)?))
        }
    }
}
