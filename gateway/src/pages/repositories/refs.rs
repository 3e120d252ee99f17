//! The lists of branches and tags, and the forms for new ones.

use askama::Template;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use ferrite_api_types::links::{encode, encode_path};
use serde::Deserialize;
use serde_json::json;

use super::commits::redirect;
use super::ref_forms::is_mistake;
use super::revision::Revision;
use super::{RepositoryVisit, Tab};
use crate::pages::components::{Pager, Time, filters, page_number};
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
    /// For those who can write.
    form: Option<NewRef>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "refs/tags.html")]
struct Tags<'a> {
    repository: &'a Repository,
    tags: Vec<Tag>,
    /// For those who can write.
    form: Option<NewRef>,
    pager: Pager,
}

/// The form of a new branch or tag, as it was filled in.
struct NewRef {
    token: FormToken,
    name: String,
    /// A branch, a tag or a commit; empty for the default branch.
    target: String,
    /// That of a tag; empty for one without.
    message: String,
    error: Option<String>,
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

impl Content for Tags<'_> {
    fn title(&self) -> String {
        "Tags".to_owned()
    }
}

impl NewRef {
    fn of(at: &RepositoryVisit, name: &str, target: &str, message: &str, error: Option<String>) -> Option<Self> {
        let can_write = at.visit.shell.viewer.is_some() && at.repository.can_write();
        (can_write && !at.repository.empty).then(|| Self {
            token: FormToken::of(&at.visit),
            name: name.to_owned(),
            target: target.to_owned(),
            message: message.to_owned(),
            error,
        })
    }

    fn status(&self) -> StatusCode {
        if self.error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }
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

    fn parameter(&self) -> String {
        encode(self.name.as_bytes())
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
        .route("/{owner}/{repo}/branches", get(branches).post(create_branch))
        .route("/{owner}/{repo}/tags", get(tags).post(create_tag))
}

/// Lists branches by name, the default one first.
async fn branches(at: RepositoryVisit) -> PageResult {
    let form = NewRef::of(&at, "", "", "", None);
    show_branches(&at, form).await
}

async fn show_branches(at: &RepositoryVisit, form: Option<NewRef>) -> PageResult {
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
    let status = form.as_ref().map_or(StatusCode::OK, NewRef::status);
    let content = Branches {
        repository: &at.repository,
        branches: default.into_iter().chain(others).collect(),
        default_link,
        form,
        pager,
    };
    Ok(with_status(status, at.page(Tab::Code, &content)?))
}

async fn create_branch(Form { visit, fields }: Form) -> PageResult {
    let at = RepositoryVisit::of(visit).await?;
    let (name, target) = (fields.text("new_branch_name").trim(), fields.text("old_ref_name").trim());
    let body = json!({"new_branch_name": name, "old_ref_name": target});
    match at.visit.api.change(Method::POST, &format!("{}/branches", at.repository.api()), Some(body)).await {
        Ok(_) => Ok(redirect(&at, &Revision::branch(&at, name, "").path_of("src", ""))),
        Err(error) if is_wrong(&error) => {
            let form = NewRef::of(&at, name, target, "", Some(error.message()));
            show_branches(&at, form).await
        }
        Err(error) => Err(error),
    }
}

/// Lists tags by name.
async fn tags(at: RepositoryVisit) -> PageResult {
    let form = NewRef::of(&at, "", "", "", None);
    show_tags(&at, form).await
}

async fn show_tags(at: &RepositoryVisit, form: Option<NewRef>) -> PageResult {
    let here = &at.visit.shell.here;
    let list = format!("{}/tags?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed = at.visit.api.list::<Tag>(&list).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let status = form.as_ref().map_or(StatusCode::OK, NewRef::status);
    let content = Tags { repository: &at.repository, tags: listed.items, form, pager };
    Ok(with_status(status, at.page(Tab::Code, &content)?))
}

async fn create_tag(Form { visit, fields }: Form) -> PageResult {
    let at = RepositoryVisit::of(visit).await?;
    let (name, target) = (fields.text("tag_name").trim(), fields.text("target").trim());
    let message = fields.text("message").trim();
    let body = json!({"tag_name": name, "target": target, "message": message});
    match at.visit.api.change(Method::POST, &format!("{}/tags", at.repository.api()), Some(body)).await {
        Ok(_) => Ok(redirect(&at, &format!("{}/tags", at.repository.path()))),
        Err(error) if is_wrong(&error) => {
            let form = NewRef::of(&at, name, target, message, Some(error.message()));
            show_tags(&at, form).await
        }
        Err(error) => Err(error),
    }
}

/// Whether the form of a new branch or tag can say what is wrong, also that its commit does not
/// exist.
fn is_wrong(error: &PageError) -> bool {
    is_mistake(error) || error.status() == StatusCode::NOT_FOUND
}
