//! Repositories: created, listed, searched, read and deleted.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, GetRepositoryRequest, ListRepositoriesRequest,
    RepositoryMode, RepositorySort, SearchRepositoriesRequest,
};

use super::access::PermissionCheck;
use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use super::tracker::list_headers;
use crate::auth::{Authenticated, MaybeAuthenticated, RequestContext, with_timeout};
use crate::dto::{Repository, SearchResults, Viewer, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, FieldError};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::{organization, routes};
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! { ApiState:
    "/api/v1/user/repos" => get list_mine as operation::LIST_REPOSITORIES, post create as operation::CREATE_REPOSITORY;
    "/api/v1/users/{username}/repos" => get list_of_user as operation::LIST_REPOSITORIES;
    "/api/v1/orgs/{org}/repos" =>
        get list_of_organization as operation::LIST_REPOSITORIES,
        post create_in_organization as organization(operation::CREATE_REPOSITORY);
    "/api/v1/org/{org}/repos" => post create_in_organization as organization(operation::CREATE_REPOSITORY);
    "/api/v1/repos/search" => get search as operation::SEARCH_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}" => get get as operation::GET_REPOSITORY, delete remove as operation::DELETE_REPOSITORY;
}

impl ApiState {
    /// Converts a repository, as [`Self::repositories`].
    pub(super) fn repository(
        &self,
        context: &RequestContext,
        repository: Option<repo::Repository>,
    ) -> Result<Repository, ApiError> {
        Ok(Repository::new(require(repository, "repository")?, viewer(context), &self.links)?)
    }

    /// Converts repositories. E-mail addresses are blank for a request without credentials.
    pub(super) fn repositories(
        &self,
        context: &RequestContext,
        repositories: Vec<repo::Repository>,
    ) -> Result<Vec<Repository>, ApiError> {
        let viewer = viewer(context);
        // A repository is large, and a vector that does not know its length moves all of its entries each time it grows.
        let mut converted = Vec::with_capacity(repositories.len());
        for repository in repositories {
            converted.push(Repository::new(repository, viewer, &self.links)?);
        }
        Ok(converted)
    }
}

fn viewer(context: &RequestContext) -> Viewer {
    if context.is_anonymous() { Viewer::Anonymous } else { Viewer::Authenticated }
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(GetRepositoryRequest { repository: Some(path.repository()) });
    let answer = api.clients.repositories().get_repository(request).await?.into_inner();
    Ok(json::ok(api.repository(&context, answer.repository)?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(DeleteRepositoryRequest { repository: Some(path.repository()) });
    api.clients.repositories().delete_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn list_mine(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    list(&api, &context, &query, ListRepositoriesRequest::default()).await
}

async fn list_of_user(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let filter = ListRepositoriesRequest { owner: path.name("username"), ..Default::default() };
    list(&api, &context, &query, filter).await
}

async fn list_of_organization(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let filter = ListRepositoriesRequest { owner: path.name("org"), is_organization: true, ..Default::default() };
    list(&api, &context, &query, filter).await
}

/// Returns a page of the repositories that `filter` selects.
async fn list(
    api: &ApiState,
    context: &RequestContext,
    query: &Query,
    filter: ListRepositoriesRequest,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = context.request(ListRepositoriesRequest { page: page.number, page_size: page.size, ..filter });
    let answer = api.clients.repositories().list_repositories(request).await?.into_inner();
    let repositories = api.repositories(context, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &api.links)))
}

async fn search(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::LARGE_LIST);
    let request = match search_terms(&query, page) {
        Ok(request) => request,
        Err(error) => {
            let check = PermissionCheck::of(operation::SEARCH_REPOSITORIES);
            return Err(api.prefer_permission_error(&context, check, error).await);
        }
    };
    let answer = api.clients.repositories().search_repositories(context.request(request)).await?.into_inner();
    let mut data = api.repositories(&context, answer.repositories)?;
    data.iter_mut().for_each(Repository::hide_permissions);
    let headers = list_headers(&query, page, answer.total_count, answer.is_partial, &api.links);
    Ok(json::page(SearchResults { data, ok: true }, headers))
}

/// Returns the terms of a search.
///
/// # Errors
/// 422 with every parameter that cannot be read.
fn search_terms(query: &Query, page: Page) -> Result<SearchRepositoriesRequest, ApiError> {
    let sorts = [
        ("alpha", RepositorySort::Name),
        ("created", RepositorySort::Created),
        ("updated", RepositorySort::Updated),
        ("size", RepositorySort::Size),
        ("id", RepositorySort::Id),
        ("stars", RepositorySort::Stars),
        ("forks", RepositorySort::Forks),
    ];
    let modes =
        [("source", RepositoryMode::Source), ("fork", RepositoryMode::Fork), ("mirror", RepositoryMode::Mirror)];
    let mut errors = Vec::new();
    let sort = query.word("sort", &sorts).unwrap_or_else(|error| note(error, &mut errors));
    let is_descending = query.word("order", &[("asc", false), ("desc", true)]);
    let is_descending = is_descending.unwrap_or_else(|error| note(error, &mut errors));
    let mode = query.word("mode", &modes).unwrap_or_else(|error| note(error, &mut errors));
    let is_archived = query.word("archived", &[("true", true), ("false", false)]);
    let is_archived = is_archived.unwrap_or_else(|error| note(error, &mut errors));
    if !errors.is_empty() {
        return Err(ApiError::invalid(errors));
    }
    Ok(SearchRepositoriesRequest {
        query: query.filter("q"),
        // Ids are positive, so a negative one selects nothing, as does the largest; zero selects every owner.
        owner_id: query.number("uid").map_or(0, |id| if id < 0 { i64::MAX } else { id }),
        page: page.number,
        page_size: page.size,
        sort: sort.unwrap_or_default().into(),
        is_descending: is_descending.unwrap_or_default(),
        mode: mode.unwrap_or_default().into(),
        topic: query.filter("topic"),
        is_archived,
    })
}

/// Notes the error of a parameter, which then counts as absent.
fn note<T>(error: FieldError, errors: &mut Vec<FieldError>) -> Option<T> {
    errors.push(error);
    None
}

/// The owner of a new repository.
enum Owner {
    /// The caller.
    Caller,
    /// An organization.
    Organization(String),
    /// Any account, for a caller that acts as an administrator of the site.
    AsAdministrator(String),
}

/// Creates a repository of the caller, or of the user that the route names for a caller that acts as an administrator.
pub(super) async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    body: JsonBody,
) -> Result<Response, ApiError> {
    add(&api, &context, body, username.map_or(Owner::Caller, Owner::AsAdministrator)).await
}

async fn create_in_organization(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    add(&api, &context, body, Owner::Organization(path.name("org"))).await
}

async fn add(api: &ApiState, context: &RequestContext, body: JsonBody, owner: Owner) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::CREATE_REPOSITORY);
    let (check, owner, as_administrator) = match owner {
        Owner::Caller => (check, String::new(), false),
        Owner::Organization(name) => (check.on_organization(&name), name, false),
        Owner::AsAdministrator(name) => (check.by_administrator(true), name, true),
    };
    let decoded = api.decode_body(context, check, body, decode).await?;
    let request = context.request(CreateRepositoryRequest { owner, as_administrator, ..decoded });
    let answer =
        api.clients.repositories().create_repository(with_timeout(request, LONG_CALL_DEADLINE)).await?.into_inner();
    Ok(json::created(api.repository(context, answer.repository)?))
}

fn decode(fields: &mut FieldReader) -> CreateRepositoryRequest {
    let (name, description) = (fields.required_non_empty("name"), fields.text_or_empty("description"));
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
