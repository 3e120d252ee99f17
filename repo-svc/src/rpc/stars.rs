use ferrite_proto::repo::star_service_server::StarService;
use ferrite_proto::repo::*;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{encode, lookup};
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::Relation;

authorized_service!(StarService {
    list_starred_repositories(ListStarredRepositoriesRequest) -> ListStarredRepositoriesResponse;
    list_stargazers(ListStargazersRequest) -> ListStargazersResponse;
    is_starred(IsStarredRequest) -> IsStarredResponse;
    star_repository(StarRepositoryRequest) -> StarRepositoryResponse;
    unstar_repository(UnstarRepositoryRequest) -> UnstarRepositoryResponse;
});

async fn list_starred_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListStarredRepositoriesRequest>,
) -> Result<ListStarredRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list_related(Relation::Star, user, authorized.viewer(), page).await?;
    let repositories = encode::repositories(&state.repositories, rows, authorized.viewer()).await?;
    Ok(ListStarredRepositoriesResponse { repositories, total_count })
}

async fn list_stargazers(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListStargazersRequest>,
) -> Result<ListStargazersResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let page = lookup::page(request.page, request.page_size);
    let rows = state.relations.users(Relation::Star, repository.id(), page).await?;
    let users = encode::users(rows, authorized.viewer());
    Ok(ListStargazersResponse { users, total_count: repository.star_count })
}

async fn is_starred(
    state: &AppState,
    authorized: Authorized,
    request: Request<IsStarredRequest>,
) -> Result<IsStarredResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository_by_any_name(&state.repositories, by).await?;
    let star = state.relations.find(Relation::Star, authorized.user()?, repository.id()).await?;
    Ok(IsStarredResponse { is_starred: star.is_some() })
}

async fn star_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<StarRepositoryRequest>,
) -> Result<StarRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository_by_any_name(&state.repositories, by).await?;
    state.relations.add(Relation::Star, authorized.user()?, repository.id(), state.clock.now_us()).await?;
    Ok(StarRepositoryResponse {})
}

async fn unstar_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<UnstarRepositoryRequest>,
) -> Result<UnstarRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository_by_any_name(&state.repositories, by).await?;
    state.relations.remove(Relation::Star, authorized.user()?, repository.id()).await?;
    Ok(UnstarRepositoryResponse {})
}
