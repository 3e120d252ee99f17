//! Forms that change the files of a branch, each in one commit. They keep what was typed, whatever
//! happens.

mod commit;
mod delete;
mod edit;
mod form;
pub(super) mod text;
mod upload;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use super::RepositoryVisit;
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::view::Repository;
use crate::pages::visit::PagesState;

/// The first branch of a repository that the operator's choice does not name.
const USUAL_BRANCH: &str = "main";

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route("/{owner}/{repo}/_edit/{*rest}", get(edit::edit).post(edit::save))
        .route("/{owner}/{repo}/_new/{*rest}", get(edit::new).post(edit::create))
        .route("/{owner}/{repo}/_delete/{*rest}", get(delete::ask).post(delete::delete))
        .route("/{owner}/{repo}/_upload/{*rest}", get(upload::show).post(upload::upload))
}

/// Returns the default branch, also of a repository without commits.
pub(super) fn first_branch(repository: &Repository) -> &str {
    if repository.default_branch.is_empty() { USUAL_BRANCH } else { &repository.default_branch }
}

fn require_writer(at: &RepositoryVisit) -> PageResult<()> {
    at.visit.signed_in()?;
    if at.repository.can_write() {
        return Ok(());
    }
    let message = match (at.repository.archived, at.repository.mirror) {
        (true, _) => "the repository is archived: nobody can change its files",
        (_, true) => "the repository is a mirror: nobody can change its files here",
        (false, false) => "only users with write permission can change files",
    };
    Err(ApiError::new(StatusCode::FORBIDDEN, message).into())
}

/// Returns the status of a form that is shown again.
fn status_of(error: &PageError) -> StatusCode {
    match error {
        PageError::Refused(error) => error.status,
        // What the form is about is not there any more.
        PageError::Moved(_) | PageError::RenamedBranch { .. } => StatusCode::CONFLICT,
        PageError::SignIn => StatusCode::UNAUTHORIZED,
    }
}
