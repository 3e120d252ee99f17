//! The members of an organization, and the forms to add and remove them.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::encode;
use serde_json::json;

use super::PEOPLE_PER_PAGE;
use super::organization_frame::{OrganizationForm, OrganizationVisit, Tab, mistake};
use crate::http::error::ApiError;
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::Content;
use crate::pages::view::Account;

#[derive(Template)]
#[template(path = "accounts/members.html")]
struct Members<'a> {
    at: &'a OrganizationVisit,
    path: String,
    people: Vec<Account>,
    pager: Pager,
    token: FormToken,
    /// What was typed.
    fields: &'a Fields,
    message: &'a str,
}

#[derive(Template)]
#[template(path = "accounts/member_removal.html")]
struct Removal<'a> {
    organization: &'a str,
    name: &'a str,
    is_own: bool,
    /// The path of the list.
    members: String,
    action: String,
    token: FormToken,
    message: &'a str,
}

impl Content for Members<'_> {
    fn title(&self) -> String {
        "Members".to_owned()
    }
}

impl Content for Removal<'_> {
    fn title(&self) -> String {
        if self.is_own { "Leave".to_owned() } else { format!("Remove {}", self.name) }
    }
}

pub(super) async fn list(at: OrganizationVisit) -> PageResult {
    page(&at, &Fields::default(), "").await
}

async fn page(at: &OrganizationVisit, fields: &Fields, message: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/members?page={}&limit={PEOPLE_PER_PAGE}", at.api(), page_number(here));
    let listed: Listed<Account> = at.visit.api.list(&path).await?;
    let content = Members {
        at,
        path: format!("{}/members", at.path()),
        pager: Pager::of(here, PEOPLE_PER_PAGE, &listed),
        people: listed.items,
        token: FormToken::of(&at.visit),
        fields,
        message,
    };
    at.form(Tab::Members, &content, message)
}

/// Adds a member or changes a role, or shows or hides the visitor's own membership.
pub(super) async fn change(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let own = format!("{}/public_members/{}", at.api(), at.visit.signed_in()?.login);
    let api = &at.visit.api;
    let changed = match fields.text("action") {
        "publish" => api.change(Method::PUT, &own, None).await,
        "hide" => api.change(Method::DELETE, &own, None).await,
        _ => {
            let path = format!("{}/memberships/{}", at.api(), encode(fields.text("username").trim().as_bytes()));
            api.change(Method::PUT, &path, Some(json!({"role": fields.text("role")}))).await
        }
    };
    match changed {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/members", at.path()))),
        Err(error) => {
            let message = mistake(error)?;
            page(&at, &fields, &message).await
        }
    }
}

pub(super) async fn ask_to_remove(at: OrganizationVisit) -> PageResult {
    at.visit.signed_in()?;
    removal(&at, "")
}

fn removal(at: &OrganizationVisit, message: &str) -> PageResult {
    let (name, members) = (at.visit.name(3), format!("{}/members", at.path()));
    let is_own = at.is_own_name(&name);
    if !is_own && !at.is_owner() {
        let refusal = "only owners of the organization can remove members";
        return Err(ApiError::new(StatusCode::FORBIDDEN, refusal).into());
    }
    let content = Removal {
        organization: &at.organization.username,
        name: &name,
        is_own,
        action: format!("{members}/{}/remove", at.visit.segment(3)),
        members,
        token: FormToken::of(&at.visit),
        message,
    };
    at.form(Tab::Members, &content, message)
}

/// Removes a member, who can be the visitor.
pub(super) async fn remove(OrganizationForm { at, .. }: OrganizationForm) -> PageResult {
    let path = format!("{}/members/{}", at.api(), at.visit.segment(3));
    match at.visit.api.change(Method::DELETE, &path, None).await {
        // The visitor may no longer see the organization.
        Ok(_) if at.is_own_name(&at.visit.name(3)) => {
            Ok(at.visit.redirect(&format!("/{}", at.visit.signed_in()?.login)))
        }
        Ok(_) => Ok(at.visit.redirect(&format!("{}/members", at.path()))),
        Err(error) => removal(&at, &error.mistake()?),
    }
}
