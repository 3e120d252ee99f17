//! The history of a branch, tag or commit, or of a path over its former names.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use ferrite_api_types::links::{encode, encode_path};

use super::revision::{Kind, Revision};
use super::{RepositoryVisit, Tab};
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::expensive::expensive;
use crate::pages::layout::Content;
use crate::pages::pool::Group;
use crate::pages::view::Repository;
use crate::pages::view::commits::{Commit, Day};
use crate::pages::visit::PagesState;

const PAGE_SIZE: u64 = 30;

#[derive(Template)]
#[template(path = "commits/list.html")]
struct Commits<'a> {
    repository: &'a Repository,
    revision: &'a Revision,
    /// The path of the file or folder; empty for the whole history.
    path: &'a str,
    /// The pages of the files and of the whole history.
    files: String,
    whole: String,
    feed: Option<String>,
    days: Vec<Day>,
    pager: Pager,
}

impl Content for Commits<'_> {
    fn title(&self) -> String {
        match self.path {
            "" => format!("Commits of {}", self.revision.label()),
            path => format!("Commits of {path} at {}", self.revision.label()),
        }
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/commits", get(of_default_branch))
        .route("/{owner}/{repo}/commits/{*rest}", get(expensive(Group::History, commits)))
}

/// `/commits`: leads to those of the default branch.
async fn of_default_branch(at: RepositoryVisit) -> PageResult {
    let repository = &at.repository;
    let path = match repository.default_branch.as_str() {
        "" => repository.path(),
        branch => format!("{}/commits/branch/{}", repository.path(), encode_path(branch.as_bytes())),
    };
    Ok(redirect(&at, &path))
}

/// `/commits/{kind}/{name}/{path}`, or `/commits/{name}/{path}` of Gogs.
async fn commits(at: RepositoryVisit) -> PageResult {
    if Kind::split(&at.rest).is_none() {
        return without_kind(&at).await;
    }
    let (revision, path) = Revision::of(&at).await?;
    let here = &at.visit.shell.here;
    let followed = match path.as_str() {
        "" => String::new(),
        path => format!("&path={}&follow=true", encode(path.as_bytes())),
    };
    let list = format!(
        "{}/commits?sha={}&page={}&limit={PAGE_SIZE}&stat=false&files=false{followed}",
        at.repository.api(),
        revision.commit,
        page_number(here)
    );
    let listed = at.visit.api.list::<Commit>(&list).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let repository = at.repository.path();
    let has_feed = revision.kind == Kind::Branch && path.is_empty();
    let feed = has_feed.then(|| format!("{repository}/atom/branch/{}", encode_path(revision.name.as_bytes())));
    let content = Commits {
        repository: &at.repository,
        revision: &revision,
        path: &path,
        files: revision.path_of("src", &path),
        whole: revision.path_of("commits", ""),
        feed,
        days: Day::group(listed.items, &repository),
        pager,
    };
    at.page(Tab::Code, &content)
}

/// Leads to the page with the kind: that of the commit, for the id of one.
async fn without_kind(at: &RepositoryVisit) -> PageResult {
    let (revision, path) = Revision::resolve_any(at, &at.rest).await?;
    let target = match revision.kind {
        Kind::Commit if path.is_empty() => format!("{}/commit/{}", at.repository.path(), revision.commit),
        _ => revision.path_of("commits", &path),
    };
    Ok(redirect(at, &target))
}

/// Leads to another page of the site.
pub(super) fn redirect(at: &RepositoryVisit, path: &str) -> Response {
    Redirect::to(&format!("{}{path}", at.visit.shell.site.root)).into_response()
}
