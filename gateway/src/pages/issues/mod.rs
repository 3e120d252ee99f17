//! Pages of issues, labels and milestones.

mod comments;
mod draft;
mod edit;
mod issue;
mod labels;
pub(super) mod list;
mod milestone_forms;
mod milestones;
mod mine;
pub(super) mod reply;
pub(super) mod timeline;
pub(super) mod view;

use axum::Router;
use axum::extract::{FromRequest, Request};
use axum::routing::get;

use super::error::{PageError, PageResult};
use super::form::{Fields, Form};
use super::repositories::RepositoryVisit;
use super::visit::PagesState;

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/issues", get(mine::issues))
        .route("/pulls", get(mine::pulls))
        .route("/{owner}/{repo}/issues", get(list::list))
        .route("/{owner}/{repo}/issues/new", get(edit::new).post(edit::create))
        .route("/{owner}/{repo}/issues/{number}", get(issue::show).post(issue::answer))
        .route("/{owner}/{repo}/issues/{number}/changes", get(issue::changes))
        .route("/{owner}/{repo}/issues/{number}/edit", get(edit::edit).post(edit::save))
        .route("/{owner}/{repo}/comments/{id}", get(comments::show))
        .route("/{owner}/{repo}/comments/{id}/edit", get(comments::edit).post(comments::save))
        .route("/{owner}/{repo}/labels", get(labels::list).post(labels::create))
        .route("/{owner}/{repo}/labels/{id}/edit", get(labels::edit).post(labels::save))
        .route("/{owner}/{repo}/milestones", get(milestones::list))
        .route("/{owner}/{repo}/milestones/new", get(milestone_forms::new).post(milestone_forms::create))
        .route("/{owner}/{repo}/milestones/{id}/edit", get(milestone_forms::edit).post(milestone_forms::save))
        .route("/{owner}/{repo}/milestone/{id}", get(milestones::show))
}

/// A form that the visitor sent from a page of a repository.
pub(super) struct RepositoryForm {
    pub(super) at: RepositoryVisit,
    pub(super) fields: Fields,
}

impl FromRequest<PagesState> for RepositoryForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let path = request.uri().path().to_owned();
        let Form { visit, fields } = Form::from_request(request, state).await?;
        let mut parts = path.splitn(5, '/').skip(1);
        let mut next = || parts.next().unwrap_or_default();
        let (owner, name, _page, rest) = (next(), next(), next(), next().to_owned());
        let repository = visit.api.get(&format!("repos/{owner}/{name}")).await?;
        Ok(Self { at: RepositoryVisit { visit, repository, is_starred: None, rest }, fields })
    }
}

/// Returns the number in the path of a page, as in `/{owner}/{repo}/issues/{number}/edit`.
pub(super) fn number(at: &RepositoryVisit) -> PageResult<i64> {
    let first = at.rest.split('/').next().unwrap_or_default();
    first.parse().ok().filter(|number| *number > 0).ok_or_else(PageError::not_found)
}
