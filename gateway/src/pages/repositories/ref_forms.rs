//! The forms that rename and delete a branch or a tag.

use askama::Template;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use ferrite_api_types::links::encode_path;
use serde::de::IgnoredAny;
use serde_json::json;

use super::commits::redirect;
use super::{RepositoryVisit, Tab};
use crate::pages::components::parameter;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::visit::PagesState;

/// What a form is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noun {
    Branch,
    Tag,
}

#[derive(Template)]
#[template(path = "refs/delete.html")]
struct DeletePage<'a> {
    noun: Noun,
    name: &'a str,
    message: Option<String>,
    token: FormToken,
    action: String,
    back: String,
}

#[derive(Template)]
#[template(path = "refs/rename.html")]
struct RenamePage<'a> {
    name: &'a str,
    /// As it was typed.
    new_name: &'a str,
    is_default: bool,
    message: Option<String>,
    token: FormToken,
    action: String,
    back: String,
}

impl Noun {
    fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Tag => "tag",
        }
    }

    /// The list, below the repository, on pages and in the API.
    fn list(self) -> &'static str {
        match self {
            Self::Branch => "branches",
            Self::Tag => "tags",
        }
    }

    fn api(self, at: &RepositoryVisit, name: &str) -> String {
        format!("{}/{}/{}", at.repository.api(), self.list(), encode_path(name.as_bytes()))
    }

    fn page(self, at: &RepositoryVisit) -> String {
        format!("{}/{}", at.repository.path(), self.list())
    }
}

impl Content for DeletePage<'_> {
    fn title(&self) -> String {
        format!("Delete the {} {}", self.noun.word(), self.name)
    }
}

impl Content for RenamePage<'_> {
    fn title(&self) -> String {
        format!("Rename the branch {}", self.name)
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/branches/delete", get(ask_to_delete_branch).post(delete_branch))
        .route("/{owner}/{repo}/branches/rename", get(ask_to_rename).post(rename))
        .route("/{owner}/{repo}/tags/delete", get(ask_to_delete_tag).post(delete_tag))
}

async fn ask_to_delete_branch(at: RepositoryVisit) -> PageResult {
    let name = existing(&at, Noun::Branch).await?;
    deletion(&at, Noun::Branch, &name, None)
}

async fn ask_to_delete_tag(at: RepositoryVisit) -> PageResult {
    let name = existing(&at, Noun::Tag).await?;
    deletion(&at, Noun::Tag, &name, None)
}

async fn ask_to_rename(at: RepositoryVisit) -> PageResult {
    let name = existing(&at, Noun::Branch).await?;
    renaming(&at, &name, &name, None)
}

async fn delete_branch(form: Form) -> PageResult {
    delete(form, Noun::Branch).await
}

async fn delete_tag(form: Form) -> PageResult {
    delete(form, Noun::Tag).await
}

/// Returns the branch or tag of the query, if it exists and the visitor can change it.
async fn existing(at: &RepositoryVisit, noun: Noun) -> PageResult<String> {
    at.visit.signed_in()?;
    let name = parameter(&at.visit.shell.here, "name").unwrap_or_default();
    if !at.repository.can_write() || name.is_empty() {
        return Err(PageError::not_found());
    }
    let found: Option<IgnoredAny> = at.visit.api.find(&noun.api(at, &name)).await?;
    found.map(|_| name).ok_or_else(PageError::not_found)
}

async fn delete(Form { visit, fields }: Form, noun: Noun) -> PageResult {
    let at = RepositoryVisit::of(visit).await?;
    let name = named(fields.text("name"))?;
    match at.visit.api.change(Method::DELETE, &noun.api(&at, name), None).await {
        Ok(_) => Ok(redirect(&at, &noun.page(&at))),
        Err(error) if is_mistake(&error) => refused(deletion(&at, noun, name, Some(error.message()))?),
        Err(error) => Err(error),
    }
}

async fn rename(Form { visit, fields }: Form) -> PageResult {
    let at = RepositoryVisit::of(visit).await?;
    let (name, new_name) = (named(fields.text("name"))?, fields.text("new_name").trim());
    let body = json!({"name": new_name});
    match at.visit.api.change(Method::PATCH, &Noun::Branch.api(&at, name), Some(body)).await {
        Ok(_) => Ok(redirect(&at, &Noun::Branch.page(&at))),
        Err(error) if is_mistake(&error) => refused(renaming(&at, name, new_name, Some(error.message()))?),
        Err(error) => Err(error),
    }
}

fn named(name: &str) -> PageResult<&str> {
    if name.is_empty() { Err(PageError::not_found()) } else { Ok(name) }
}

/// Whether the form can say what is wrong, such as that the branch is protected.
pub(super) fn is_mistake(error: &PageError) -> bool {
    let about_visitor = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS];
    error.status().is_client_error() && !about_visitor.contains(&error.status())
}

fn refused(page: Response) -> PageResult {
    Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, page))
}

fn deletion(at: &RepositoryVisit, noun: Noun, name: &str, message: Option<String>) -> PageResult {
    let back = noun.page(at);
    let (token, action) = (FormToken::of(&at.visit), format!("{back}/delete"));
    at.page(Tab::Code, &DeletePage { noun, name, message, token, action, back })
}

fn renaming(at: &RepositoryVisit, name: &str, new_name: &str, message: Option<String>) -> PageResult {
    let back = Noun::Branch.page(at);
    let (token, action) = (FormToken::of(&at.visit), format!("{back}/rename"));
    let is_default = name == at.repository.default_branch;
    at.page(Tab::Code, &RenamePage { name, new_name, is_default, message, token, action, back })
}
