//! Administration of the site: a frame, and one file per noun. For other users these pages do not
//! exist.
//!
//! They are below `/-/`, as in Gitea: an account can have the name `admin`, and repositories with
//! any name.

mod audit;
mod emails;
mod organizations;
mod public_keys;
mod quotas;
mod stores;
mod user_edit;
mod users;

use askama::Template;
use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::get;

use super::components::parameter;
use super::error::{PageError, PageResult, render};
use super::form::{Fields, Form};
use super::layout::{Content, with_status};
use super::visit::{PagesState, Visit};
use crate::http::caching::NO_STORE;

/// A parameter of the page to which a form leads that was saved.
const SAVED: &str = "saved";

/// The parts of the administration. Webhooks have pages of their own, in the same frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Users,
    Organizations,
    Stores,
    Audit,
}

/// A visit of a page by an administrator of the site.
struct AdministratorVisit(Visit);

/// A form that an administrator sent.
struct AdministratorForm {
    visit: Visit,
    fields: Fields,
}

#[derive(Template)]
#[template(path = "administration/frame.html")]
struct Frame<'a> {
    part: &'static str,
    title: String,
    is_saved: bool,
    error: &'a str,
    main: String,
}

impl Content for Frame<'_> {
    fn title(&self) -> String {
        format!("{} · Administration", self.title)
    }
}

impl FromRequestParts<PagesState> for AdministratorVisit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        let visit = Visit::from_request_parts(parts, state).await?;
        visit.require_administrator()?;
        Ok(Self(visit))
    }
}

impl FromRequest<PagesState> for AdministratorForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let Form { visit, fields } = Form::from_request(request, state).await?;
        visit.require_administrator()?;
        Ok(Self { visit, fields })
    }
}

impl Part {
    /// The word by which `administration/nav.html` knows it.
    fn word(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Organizations => "orgs",
            Self::Stores => "stores",
            Self::Audit => "audit",
        }
    }

    fn path(self) -> String {
        format!("/-/admin/{}", self.word())
    }

    /// Responds with a page in the frame, which nothing keeps. `error` says what is wrong in its form,
    /// empty if nothing is.
    fn page(self, visit: &Visit, content: &impl Content, error: &str) -> PageResult {
        let is_saved = error.is_empty() && parameter(&visit.shell.here, SAVED).is_some();
        let frame = Frame { part: self.word(), title: content.title(), is_saved, error, main: render(content)? };
        let status = if error.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let mut response = with_status(status, visit.page(&frame)?);
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        Ok(response)
    }
}

async fn start(AdministratorVisit(visit): AdministratorVisit) -> Response {
    visit.redirect(&Part::Users.path())
}

/// Leads to a page after its form was saved.
fn saved(visit: &Visit, path: &str) -> Response {
    visit.redirect(&format!("{path}?{SAVED}=1"))
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/-/admin", get(start))
        .route("/-/admin/users", get(users::list))
        .route("/-/admin/users/new", get(users::new).post(users::create))
        .route("/-/admin/users/{username}/edit", get(user_edit::show).post(user_edit::save))
        .route("/-/admin/users/{username}/delete", get(user_edit::ask_to_delete).post(user_edit::delete))
        .route("/-/admin/users/{username}/quota", get(quotas::show).post(quotas::save))
        .route("/-/admin/users/{username}/keys", get(public_keys::show).post(public_keys::change))
        .route("/-/admin/users/{username}/emails", get(emails::show).post(emails::change))
        .route("/-/admin/orgs", get(organizations::list))
        .route("/-/admin/orgs/{org}/quota", get(quotas::show).post(quotas::save))
        .route("/-/admin/stores", get(stores::list).post(stores::change))
        .route("/-/admin/stores/{store}/delete", get(stores::ask_to_delete).post(stores::delete))
        .route("/-/admin/audit", get(audit::list))
}
