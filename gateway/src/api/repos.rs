use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, GetRepositoryRequest, ListRepositoriesRequest,
    SearchRepositoriesRequest,
};
use serde::Serialize;

use crate::auth::{Anyone, Call, Signed, within};
use crate::body::{Fields, JSON_BYTES, Payload, Slot};
use crate::clients::LONG_DEADLINE;
use crate::dto::{Repository, Viewer, present};
use crate::error::ApiError;
use crate::json;
use crate::page::{MANY, Query, WHOLE};
use crate::path::{RepoPath, UserPath};
use crate::state::Gateway;

impl Gateway {
    fn repository(&self, call: &Call, repository: Option<repo::Repository>) -> Result<Repository, ApiError> {
        let viewer = if call.is_anonymous() { Viewer::Anonymous } else { Viewer::Signed };
        Ok(Repository::new(present(repository, "repository")?, viewer, &self.links)?)
    }

    fn repositories(&self, call: &Call, repositories: Vec<repo::Repository>) -> Result<Vec<Repository>, ApiError> {
        repositories.into_iter().map(|repository| self.repository(call, Some(repository))).collect()
    }
}

/// `GET /repos/{owner}/{repo}`: one call, and nothing else.
pub(crate) async fn get(
    State(gateway): State<Gateway>,
    Anyone(call): Anyone,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let Some(repository) = path.repository() else {
        return Err(gateway.refusal(&call, ApiError::repository_not_found()).await);
    };
    let request = call.request(GetRepositoryRequest { repository: Some(repository) });
    let answer = gateway.clients.repositories().get_repository(request).await?.into_inner();
    Ok(json::ok(gateway.repository(&call, answer.repository)?))
}

/// `DELETE /repos/{owner}/{repo}`
pub(crate) async fn remove(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let Some(repository) = path.repository() else {
        return Err(gateway.refusal(&call, ApiError::repository_not_found()).await);
    };
    let request = call.request(DeleteRepositoryRequest { repository: Some(repository) });
    gateway.clients.repositories().delete_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /user/repos`
pub(crate) async fn list_mine(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    query: Query,
) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, String::new()).await
}

/// `GET /users/{username}/repos`
pub(crate) async fn list_of_user(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: UserPath,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(username) = path.username else {
        return Err(gateway.refusal(&call, ApiError::not_found("user does not exist")).await);
    };
    list(&gateway, &call, &query, username).await
}

async fn list(gateway: &Gateway, call: &Call, query: &Query, owner: String) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListRepositoriesRequest { owner, page: page.number, page_size: page.size });
    let answer = gateway.clients.repositories().list_repositories(request).await?.into_inner();
    let repositories = gateway.repositories(call, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &gateway.links)))
}

/// What search answers with.
#[derive(Serialize)]
struct Found {
    data: Vec<Repository>,
    ok: bool,
}

/// `GET /repos/search`
pub(crate) async fn search(
    State(gateway): State<Gateway>,
    Anyone(call): Anyone,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(MANY);
    // No stored text has a NUL, and databases refuse the question.
    let wanted = query.text("q").unwrap_or_default().replace('\0', "\u{fffd}");
    // Nobody has a negative id; nobody has the largest either.
    let owner_id = query.number("uid").map_or(0, |id| if id < 0 { i64::MAX } else { id });
    let request = SearchRepositoriesRequest { query: wanted, owner_id, page: page.number, page_size: page.size };
    let answer = gateway.clients.repositories().search_repositories(call.request(request)).await?.into_inner();
    let found = gateway.repositories(&call, answer.repositories)?;
    let data = found.into_iter().map(Repository::without_permissions).collect();
    Ok(json::page(Found { data, ok: true }, query.headers(page, answer.total_count, &gateway.links)))
}

/// `POST /user/repos`
pub(crate) async fn create(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    payload: Payload,
) -> Result<Response, ApiError> {
    let (request, _slot) = match payload.fields(&gateway, JSON_BYTES).await.and_then(decode) {
        Ok(decoded) => decoded,
        Err(error) => return Err(gateway.refusal(&call, error).await),
    };
    let request = within(call.request(request), LONG_DEADLINE);
    let answer = gateway.clients.repositories().create_repository(request).await?.into_inner();
    Ok(json::created(gateway.repository(&call, answer.repository)?))
}

fn decode(mut fields: Fields) -> Result<(CreateRepositoryRequest, Slot), ApiError> {
    let name = fields.required("name");
    let description = fields.text_or_empty("description");
    let is_private = fields.flag("private");
    let is_initialised = fields.flag("auto_init");
    let gitignores = fields.text_or_empty("gitignores");
    let license = fields.text_or_empty("license");
    let readme = fields.text_or_empty("readme");
    let slot = fields.finish()?;
    let gitignores = gitignores.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let auto_init = is_initialised.then_some(AutoInit { gitignores, license, readme });
    Ok((CreateRepositoryRequest { name, description, is_private, auto_init }, slot))
}
