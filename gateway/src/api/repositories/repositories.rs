//! Repositories: created, listed, searched, read and deleted.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, GetRepositoryRequest, ListRepositoriesRequest,
    RepositoryMode, RepositorySort, SearchRepositoriesRequest,
};
use ferrite_rpc::grpc::with_timeout;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, routes};
use crate::api::issues::{list_headers, value};
use crate::dto::{Repository, SearchResults, Viewer, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::organization;
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! {
    "/api/v1/user/repos" => get list as operation::LIST_REPOSITORIES, post create as operation::CREATE_REPOSITORY;
    "/api/v1/users/{username}/repos" => get list as operation::LIST_REPOSITORIES;
    "/api/v1/orgs/{org}/repos" =>
        get list as operation::LIST_REPOSITORIES,
        post create as organization(operation::CREATE_REPOSITORY);
    "/api/v1/org/{org}/repos" => post create as organization(operation::CREATE_REPOSITORY);
    "/api/v1/repos/search" => get search as operation::SEARCH_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}" => get get as operation::GET_REPOSITORY, delete remove as operation::DELETE_REPOSITORY;
}

impl ApiCall {
    /// Converts a repository, as [`Self::repositories`].
    pub(crate) fn repository(&self, repository: Option<repo::Repository>) -> Result<Repository, ApiError> {
        Ok(Repository::new(require(repository, "repository")?, self.viewer(), &self.links)?)
    }

    /// Converts repositories. E-mail addresses are blank for a request without credentials.
    pub(crate) fn repositories(&self, repositories: Vec<repo::Repository>) -> Result<Vec<Repository>, ApiError> {
        let viewer = self.viewer();
        // A repository is large, and a vector that does not know its length moves all of its entries each time it grows.
        let mut converted = Vec::with_capacity(repositories.len());
        for repository in repositories {
            converted.push(Repository::new(repository, viewer, &self.links)?);
        }
        Ok(converted)
    }

    fn viewer(&self) -> Viewer {
        if self.is_anonymous() { Viewer::Anonymous } else { Viewer::Authenticated }
    }
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult {
    let request = call.request(GetRepositoryRequest { repository: Some(path.repository()) });
    let response = call.clients.repositories().get_repository(request).await?.into_inner();
    Ok(json::ok(call.repository(response.repository)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(DeleteRepositoryRequest { repository: Some(path.repository()) });
    call.clients.repositories().delete_repository(request).await?;
    Ok(json::no_content())
}

/// Responds with the repositories that the caller can reach, or with those of the user or organization that the route names.
async fn list(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let (username, organization) = (path.optional_name("username"), path.optional_name("org"));
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = call.request(ListRepositoriesRequest {
        is_organization: organization.is_some(),
        owner: username.or(organization).unwrap_or_default(),
        page: page.number,
        page_size: page.size,
    });
    let response = call.clients.repositories().list_repositories(request).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(json::page(repositories, query.headers(page, response.total_count, &call.links)))
}

async fn search(MaybeAuthenticated(call): MaybeAuthenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::LARGE_LIST);
    let check = PermissionCheck::of(operation::SEARCH_REPOSITORIES);
    let request = call.after_permission(check, search_terms(&query, page)).await?;
    let response = call.clients.repositories().search_repositories(call.request(request)).await?.into_inner();
    let mut data = call.repositories(response.repositories)?;
    data.iter_mut().for_each(Repository::hide_permissions);
    let headers = list_headers(&query, page, response.total_count, response.is_partial, &call.links);
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
    let sort = value(query.word("sort", &sorts), &mut errors);
    let is_descending = value(query.word("order", &[("asc", false), ("desc", true)]), &mut errors);
    let mode = value(query.word("mode", &modes), &mut errors);
    let owner_id = value(query.whole_number("uid"), &mut errors);
    let is_archived = value(query.word("archived", &[("true", true), ("false", false)]), &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(errors));
    }
    Ok(SearchRepositoriesRequest {
        query: query.filter("q"),
        // Ids are positive, so a negative one selects nothing, as does the largest; zero selects every owner.
        owner_id: owner_id.map_or(0, |id| if id < 0 { i64::MAX } else { id }),
        page: page.number,
        page_size: page.size,
        sort: sort.unwrap_or_default().into(),
        is_descending: is_descending.unwrap_or_default(),
        mode: mode.unwrap_or_default().into(),
        topic: query.filter("topic"),
        is_archived,
    })
}

/// Creates a repository of the caller, of the organization that the route names, or of the user that it names for a caller that acts as an
/// administrator of the site.
pub(crate) async fn create(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::CREATE_REPOSITORY);
    let (check, owner, as_administrator) = match (path.optional_name("username"), path.optional_name("org")) {
        (Some(name), _) => (check.by_administrator(true), name, true),
        (None, Some(name)) => (check.on_organization(&name), name, false),
        (None, None) => (check, String::new(), false),
    };
    let decoded = call.decode_body(check, body, decode).await?;
    let request = call.request(CreateRepositoryRequest { owner, as_administrator, ..decoded });
    let response =
        call.clients.repositories().create_repository(with_timeout(request, LONG_CALL_DEADLINE)).await?.into_inner();
    Ok(json::created(call.repository(response.repository)?))
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
