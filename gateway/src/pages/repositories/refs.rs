//! Branches and tags.

use askama::Template;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use ferrite_api_types::links::{encode, encode_path};
use serde::Deserialize;

use super::commits::redirect;
use super::{RepositoryVisit, Tab};
use crate::pages::components::{Pager, Time, filters, page_number, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::Repository;
use crate::pages::view::commits::{short, subject};
use crate::pages::visit::PagesState;

const PAGE_SIZE: u64 = 30;

#[derive(Template)]
#[template(path = "refs/branches.html")]
struct Branches<'a> {
    repository: &'a Repository,
    branches: Vec<Branch>,
    /// The default branch, encoded.
    default_link: String,
    can_delete: bool,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "refs/delete.html")]
struct Delete {
    name: String,
    message: Option<String>,
    token: FormToken,
    action: String,
    branches: String,
}

#[derive(Template)]
#[template(path = "refs/tags.html")]
struct Tags<'a> {
    repository: &'a Repository,
    tags: Vec<Tag>,
    pager: Pager,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
    commit: RefCommit,
    protected: bool,
}

#[derive(Deserialize)]
pub(super) struct Tag {
    pub(super) name: String,
    /// The id of the annotated tag, else that of the commit.
    id: String,
    pub(super) message: String,
    pub(super) commit: RefCommit,
}

/// The commit of a branch or tag.
#[derive(Deserialize)]
pub(super) struct RefCommit {
    id: String,
    message: String,
    author: RefAuthor,
    pub(super) created: Time,
}

#[derive(Deserialize)]
struct RefAuthor {
    name: String,
    /// Empty without an account.
    username: String,
}

impl Content for Branches<'_> {
    fn title(&self) -> String {
        "Branches".to_owned()
    }
}

impl Content for Delete {
    fn title(&self) -> String {
        format!("Delete the branch {}", self.name)
    }
}

impl Content for Tags<'_> {
    fn title(&self) -> String {
        "Tags".to_owned()
    }
}

impl Branch {
    fn link(&self) -> String {
        encode_path(self.name.as_bytes())
    }

    fn parameter(&self) -> String {
        encode(self.name.as_bytes())
    }
}

impl Tag {
    pub(super) fn link(&self) -> String {
        encode_path(self.name.as_bytes())
    }

    fn is_annotated(&self) -> bool {
        self.id != self.commit.id
    }

    fn subject(&self) -> String {
        subject(&self.message)
    }
}

impl RefCommit {
    fn short(&self) -> &str {
        short(&self.id)
    }

    fn subject(&self) -> String {
        subject(&self.message)
    }

    /// The name of the author.
    pub(super) fn person(&self) -> &str {
        if self.author.username.is_empty() { &self.author.name } else { &self.author.username }
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/branches", get(branches))
        .route("/{owner}/{repo}/branches/delete", get(ask_to_delete).post(delete))
        .route("/{owner}/{repo}/tags", get(tags))
}

/// Lists branches by name, the default one first.
async fn branches(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let (api, number) = (at.repository.api(), page_number(here));
    let default_link = encode_path(at.repository.default_branch.as_bytes());
    let list = format!("{api}/branches?page={number}&limit={PAGE_SIZE}");
    let default = format!("{api}/branches/{default_link}");
    let find_default = async {
        if number > 1 || default_link.is_empty() { Ok(None) } else { at.visit.api.find::<Branch>(&default).await }
    };
    let (listed, default) = tokio::try_join!(at.visit.api.list::<Branch>(&list), find_default)?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let others = listed.items.into_iter().filter(|branch| branch.name != at.repository.default_branch);
    let content = Branches {
        repository: &at.repository,
        branches: default.into_iter().chain(others).collect(),
        default_link,
        can_delete: at.visit.shell.viewer.is_some() && at.repository.can_write(),
        pager,
    };
    at.page(Tab::Code, &content)
}

/// Asks whether to delete the branch of the query.
async fn ask_to_delete(at: RepositoryVisit) -> PageResult {
    at.visit.signed_in()?;
    let name = parameter(&at.visit.shell.here, "name").unwrap_or_default();
    let path = format!("{}/branches/{}", at.repository.api(), encode_path(name.as_bytes()));
    if !at.repository.can_write() || name.is_empty() || at.visit.api.find::<Branch>(&path).await?.is_none() {
        return Err(PageError::not_found());
    }
    deletion(&at, name, None)
}

async fn delete(at: RepositoryVisit, form: Form) -> PageResult {
    let name = form.fields.text("name").to_owned();
    if name.is_empty() {
        return Err(PageError::not_found());
    }
    let path = format!("{}/branches/{}", at.repository.api(), encode_path(name.as_bytes()));
    match form.visit.api.change(Method::DELETE, &path, None).await {
        Ok(_) => Ok(redirect(&at, &format!("{}/branches", at.repository.path()))),
        Err(error) if is_mistake(&error) => {
            let page = deletion(&at, name, Some(error.message()))?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, page))
        }
        Err(error) => Err(error),
    }
}

/// Whether the form can say what is wrong, such as that the branch is protected.
fn is_mistake(error: &PageError) -> bool {
    let about_visitor = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS];
    error.status().is_client_error() && !about_visitor.contains(&error.status())
}

fn deletion(at: &RepositoryVisit, name: String, message: Option<String>) -> PageResult<Response> {
    let session = at.visit.api.session().ok_or(PageError::SignIn)?;
    let repository = at.repository.path();
    let content = Delete {
        name,
        message,
        token: FormToken::new(session.expose()),
        action: format!("{repository}/branches/delete"),
        branches: format!("{repository}/branches"),
    };
    at.page(Tab::Code, &content)
}

/// Lists tags by name.
async fn tags(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let list = format!("{}/tags?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed = at.visit.api.list::<Tag>(&list).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    at.page(Tab::Code, &Tags { repository: &at.repository, tags: listed.items, pager })
}
