use ferrite_core::page::Page;
use ferrite_proto::repo::{
    GetForkRequest, GetForkResponse, GetRepositoriesRequest, GetRepositoriesResponse, GetRepositoryRequest,
    GetRepositoryResponse, ListForksRequest, ListForksResponse, ListRepositoriesRequest, ListRepositoriesResponse,
    SearchRepositoriesRequest, SearchRepositoriesResponse,
};
use ferrite_proto::{Permission, Scope};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version;
use tonic::Request;

use crate::error::RepoError;
use crate::model::RepositorySearch;
use crate::rpc::authorized::Authorized;
use crate::rpc::{encode, lookup, versions};
use crate::state::AppState;
use crate::store::OrganizationRole;

/// Maximum page size of a search.
const MAX_SEARCH_PAGE_SIZE: i32 = 50;
/// Repositories that one request looks up.
const MAX_REPOSITORIES: usize = 100;

pub(super) async fn get_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetRepositoryRequest>,
) -> Result<GetRepositoryResponse, RepoError> {
    let repository = authorized.repository_with_parent(&state.repositories, request.into_inner().repository).await?;
    if version::is_asked() {
        version::tell(&versions::repository(&repository));
    }
    Ok(GetRepositoryResponse { repository: Some(encode::repository_with_parent(repository, authorized.viewer())) })
}

pub(super) async fn get_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetRepositoriesRequest>,
) -> Result<GetRepositoriesResponse, RepoError> {
    let mut ids = request.into_inner().repository_ids;
    if ids.len() > MAX_REPOSITORIES {
        let message = "a request can look up at most 100 repositories";
        return Err(RepoError::field("repository_ids", "too_long", message));
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(GetRepositoriesResponse::default());
    }
    let viewer = authorized.viewer();
    let mut rows = state.repositories.find_many_visible(&ids, viewer).await?;
    // A repository is visible to someone who may read only its issues.
    rows.retain(|row| row.level(viewer) >= Permission::Read);
    rows.sort_unstable_by_key(|row| row.id);
    let repositories = encode::repositories(&state.repositories, rows, viewer).await?;
    Ok(GetRepositoriesResponse { repositories })
}

pub(super) async fn list_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListRepositoriesRequest>,
) -> Result<ListRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let viewer = authorized.viewer();
    let owner = match request.owner.as_str() {
        "" => {
            authorized.user()?;
            authorized.require_scope(Scope::RepoRead)?;
            None
        }
        name if request.is_organization => Some(lookup::organization(state, name, viewer).await?.id()),
        name => {
            let account = lookup::account(state, name, viewer).await?.id;
            // Callers list everything they can reach of their own, if the token opens that.
            let is_own = viewer.user() == Some(account) && viewer.scopes().contain(Scope::RepoRead);
            (!is_own).then_some(account)
        }
    };
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list(owner, viewer, page).await?;
    let repositories = encode::repositories(&state.repositories, rows, viewer).await?;
    Ok(ListRepositoriesResponse { repositories, total_count })
}

pub(super) async fn search_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<SearchRepositoriesRequest>,
) -> Result<SearchRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let search = RepositorySearch::check(&request)?;
    if !sees_team(state, &authorized, &search).await? {
        return Ok(SearchRepositoriesResponse::default());
    }
    let page = Page::nearest(request.page, request.page_size, MAX_SEARCH_PAGE_SIZE);
    let found = state.repositories.search(&search, authorized.viewer(), page).await?;
    let repositories = encode::repositories(&state.repositories, found.repositories, authorized.viewer()).await?;
    Ok(SearchRepositoriesResponse { repositories, total_count: found.total, is_partial: found.is_partial })
}

/// Whether the caller may see the team that a search filters by, if it does.
async fn sees_team(state: &AppState, authorized: &Authorized, search: &RepositorySearch) -> Result<bool, RepoError> {
    let viewer = authorized.viewer();
    let Some(team) = search.team else { return Ok(true) };
    if !viewer.scopes().contain(Scope::Org) {
        return Ok(false);
    }
    let team = state.teams.find(team, viewer.user()).await?;
    Ok(team.is_some_and(|team| viewer.is_site_administrator() || team.role() != OrganizationRole::Outsider))
}

pub(super) async fn get_fork(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetForkRequest>,
) -> Result<GetForkResponse, RepoError> {
    let GetForkRequest { repository, owner } = request.into_inner();
    let repository = authorized.repository(&state.repositories, repository).await?;
    let found = state.repositories.find_fork(&repository, &owner, authorized.viewer()).await?;
    let found = found.ok_or(AuthError::RepositoryNotFound)?;
    let mut encoded = encode::repositories(&state.repositories, vec![found], authorized.viewer()).await?;
    Ok(GetForkResponse { repository: encoded.pop() })
}

pub(super) async fn list_forks(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListForksRequest>,
) -> Result<ListForksResponse, RepoError> {
    let ListForksRequest { repository, page, page_size } = request.into_inner();
    let parent = authorized.repository(&state.repositories, repository).await?;
    let page = lookup::page(page, page_size);
    let (rows, total_count) = state.repositories.list_forks(parent.id(), authorized.viewer(), page).await?;
    let repositories = encode::repositories(&state.repositories, rows, authorized.viewer()).await?;
    Ok(ListForksResponse { repositories, total_count })
}
