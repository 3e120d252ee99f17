//! Settings of a repository, for its administrators: a frame, and one file per page. Those of
//! webhooks are in `hooks`.

mod branches;
mod collaborators;
mod deploy_keys;
mod general;
mod protections;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{RepositoryVisit, Tab};
use crate::http::error::ApiError;
use crate::pages::components::parameter;
use crate::pages::error::{PageError, PageResult, render};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::Repository;
use crate::pages::visit::{PagesState, Visit};

/// The pages of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    General,
    Collaborators,
    Branches,
    DeployKeys,
}

#[derive(Template)]
#[template(path = "repository_settings/frame.html")]
struct Frame<'a> {
    repository: &'a Repository,
    /// The page in the navigation.
    active: &'static str,
    heading: &'static str,
    notice: &'static str,
    error: &'a str,
    main: String,
}

/// What a user may do on a repository.
#[derive(Deserialize)]
struct UserPermission {
    permission: String,
}

impl Content for Frame<'_> {
    fn title(&self) -> String {
        format!("{} · Settings", self.heading)
    }
}

impl Section {
    /// The word for the page in the navigation.
    fn word(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Collaborators => "collaborators",
            Self::Branches => "branches",
            Self::DeployKeys => "keys",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::General => "General",
            Self::Collaborators => "Collaborators",
            Self::Branches => "Branches",
            Self::DeployKeys => "Deploy keys",
        }
    }

    fn path(self, repository: &str) -> String {
        let rest = match self {
            Self::General => "",
            Self::Collaborators => "/collaboration",
            Self::Branches => "/branches",
            Self::DeployKeys => "/keys",
        };
        format!("{repository}/settings{rest}")
    }

    /// Responds with a page of the settings. `error` is what is wrong with the form that was sent.
    fn page(self, at: &RepositoryVisit, content: &impl Template, error: &str) -> PageResult {
        let frame = Frame {
            repository: &at.repository,
            active: self.word(),
            heading: self.heading(),
            notice: notice(&at.visit.shell.here),
            error,
            main: render(content)?,
        };
        let status = if error.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        Ok(with_status(status, at.page(Tab::Settings, &frame)?))
    }

    /// Goes to the page after a change.
    fn saved(self, at: &RepositoryVisit) -> Response {
        at.visit.redirect(&format!("{}?saved=1", self.path(&at.repository.path())))
    }
}

/// Says that a change was made: often the page looks as before.
fn notice(here: &str) -> &'static str {
    match parameter(here, "saved").as_deref() {
        None => "",
        Some("sync") => "A sync is queued.",
        Some(_) => "Saved.",
    }
}

/// Reads the repository of the path, for its administrators. For others it has no settings.
async fn administered(visit: Visit) -> PageResult<RepositoryVisit> {
    let at = RepositoryVisit::of(visit).await?;
    let is_allowed = at.visit.shell.viewer.is_some() && at.repository.permissions.admin;
    if is_allowed { Ok(at) } else { Err(PageError::not_found()) }
}

/// Whether the visitor owns the repository, alone or with the other owners of its organization.
async fn is_owner(at: &RepositoryVisit) -> PageResult<bool> {
    let viewer = at.visit.signed_in()?;
    if viewer.is_admin || viewer.login == at.repository.owner.login {
        return Ok(true);
    }
    let path = format!("{}/collaborators/{}/permission", at.repository.api(), viewer.login);
    let found: UserPermission = at.visit.api.get(&path).await?;
    Ok(found.permission == "owner")
}

/// What a form says about a field without a value.
fn missing(field: &str) -> String {
    PageError::from(ApiError::invalid_field(field, "required", "is required")).message()
}

/// Returns values of the API as the fields of a form. Lists have spaces between their entries.
fn fields_of(values: &Map<String, Value>) -> impl Iterator<Item = (String, String)> {
    values.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(true) => "true".to_owned(),
            Value::Array(entries) => entries.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            Value::Bool(false) | Value::Null | Value::Object(_) => return None,
        };
        Some((name.clone(), text))
    })
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/settings", get(general::show).post(general::change))
        .route("/{owner}/{repo}/settings/collaboration", get(collaborators::show).post(collaborators::change))
        .route("/{owner}/{repo}/settings/branches", get(branches::show).post(branches::change))
        .route("/{owner}/{repo}/settings/branches/edit", get(protections::show).post(protections::save))
        .route("/{owner}/{repo}/settings/branches/delete", get(protections::ask_to_delete).post(protections::delete))
        .route("/{owner}/{repo}/settings/keys", get(deploy_keys::show).post(deploy_keys::change))
}
