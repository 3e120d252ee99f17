use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, GetRepositoryRequest, ListRepositoriesRequest,
    SearchRepositoriesRequest,
};

use super::access::Attempt;
use super::operation;
use crate::auth::{Anyone, Call, Signed, within};
use crate::dto::{Found, Repository, Viewer, present};
use crate::http::body::{Fields, Payload};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{MANY, Query, WHOLE};
use crate::http::path::{Params, RepoPath};
use crate::http::routes::{organization, routes};
use crate::state::Gateway;
use crate::upstream::clients::LONG_DEADLINE;

routes! { Gateway:
    "/api/v1/user/repos" => get list_mine as operation::LIST_REPOSITORIES, post create as operation::CREATE_REPOSITORY;
    "/api/v1/users/{username}/repos" => get list_of_user as operation::LIST_REPOSITORIES;
    "/api/v1/orgs/{org}/repos" =>
        get list_of_organization as operation::LIST_REPOSITORIES,
        post create_in_organization as organization(operation::CREATE_REPOSITORY);
    "/api/v1/org/{org}/repos" => post create_in_organization as organization(operation::CREATE_REPOSITORY);
    "/api/v1/repos/search" => get search as operation::SEARCH_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}" => get get as operation::GET_REPOSITORY, delete remove as operation::DELETE_REPOSITORY;
}

impl Gateway {
    fn repository(&self, call: &Call, repository: Option<repo::Repository>) -> Result<Repository, ApiError> {
        let viewer = if call.is_anonymous() { Viewer::Anonymous } else { Viewer::Signed };
        Ok(Repository::new(present(repository, "repository")?, viewer, &self.links)?)
    }

    /// Repositories as the caller may see them.
    pub(super) fn repositories(
        &self,
        call: &Call,
        repositories: Vec<repo::Repository>,
    ) -> Result<Vec<Repository>, ApiError> {
        repositories.into_iter().map(|repository| self.repository(call, Some(repository))).collect()
    }
}

/// One call, and nothing else.
async fn get(State(gateway): State<Gateway>, Anyone(call): Anyone, path: RepoPath) -> Result<Response, ApiError> {
    let request = call.request(GetRepositoryRequest { repository: Some(path.repository()) });
    let answer = gateway.clients.repositories().get_repository(request).await?.into_inner();
    Ok(json::ok(gateway.repository(&call, answer.repository)?))
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let request = call.request(DeleteRepositoryRequest { repository: Some(path.repository()) });
    gateway.clients.repositories().delete_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn list_mine(State(gateway): State<Gateway>, Signed(call): Signed, query: Query) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, ListRepositoriesRequest::default()).await
}

async fn list_of_user(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let wanted = ListRepositoriesRequest { owner: path.name("username"), ..Default::default() };
    list(&gateway, &call, &query, wanted).await
}

async fn list_of_organization(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let wanted = ListRepositoriesRequest { owner: path.name("org"), is_organization: true, ..Default::default() };
    list(&gateway, &call, &query, wanted).await
}

/// A page of the repositories that are `wanted`.
async fn list(
    gateway: &Gateway,
    call: &Call,
    query: &Query,
    wanted: ListRepositoriesRequest,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListRepositoriesRequest { page: page.number, page_size: page.size, ..wanted });
    let answer = gateway.clients.repositories().list_repositories(request).await?.into_inner();
    let repositories = gateway.repositories(call, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &gateway.links)))
}

async fn search(State(gateway): State<Gateway>, Anyone(call): Anyone, query: Query) -> Result<Response, ApiError> {
    let page = query.page(MANY);
    // Nobody has a negative id; nobody has the largest either.
    let owner_id = query.number("uid").map_or(0, |id| if id < 0 { i64::MAX } else { id });
    let request =
        SearchRepositoriesRequest { query: query.filter("q"), owner_id, page: page.number, page_size: page.size };
    let answer = gateway.clients.repositories().search_repositories(call.request(request)).await?.into_inner();
    let found = gateway.repositories(&call, answer.repositories)?;
    let data = found.into_iter().map(Repository::without_permissions).collect();
    Ok(json::page(Found { data, ok: true }, query.headers(page, answer.total_count, &gateway.links)))
}

/// Whose a new repository is to be.
pub(super) enum Owner {
    /// The caller's.
    Caller,
    /// An organization's.
    Organization(String),
    /// Anybody's, for an administrator of the site.
    AsAdministrator(String),
}

async fn create(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    add(&gateway, &call, payload, Owner::Caller).await
}

async fn create_in_organization(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    add(&gateway, &call, payload, Owner::Organization(path.name("org"))).await
}

pub(super) async fn add(gateway: &Gateway, call: &Call, payload: Payload, owner: Owner) -> Result<Response, ApiError> {
    let attempt = Attempt::of(operation::CREATE_REPOSITORY);
    let (attempt, owner, as_administrator) = match owner {
        Owner::Caller => (attempt, String::new(), false),
        Owner::Organization(name) => (attempt.on_organization(&name), name, false),
        Owner::AsAdministrator(name) => (attempt.by_administrator(true), name, true),
    };
    let decoded = gateway.decoded(call, attempt, payload, decode).await?;
    let request = call.request(CreateRepositoryRequest { owner, as_administrator, ..decoded });
    let answer = gateway.clients.repositories().create_repository(within(request, LONG_DEADLINE)).await?.into_inner();
    Ok(json::created(gateway.repository(call, answer.repository)?))
}

fn decode(fields: &mut Fields) -> CreateRepositoryRequest {
    let (name, description) = (fields.required("name"), fields.text_or_empty("description"));
    let (is_private, is_initialised) = (fields.flag("private"), fields.flag("auto_init"));
    let gitignores = fields.text_or_empty("gitignores");
    let auto_init = AutoInit {
        gitignores: gitignores.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        license: fields.text_or_empty("license"),
        readme: fields.text_or_empty("readme"),
    };
    CreateRepositoryRequest {
        name,
        description,
        is_private,
        auto_init: is_initialised.then_some(auto_init),
        owner: String::new(),
        as_administrator: false,
    }
}
