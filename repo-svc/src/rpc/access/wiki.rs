//! The wiki of a repository: its id on the store. The first push to a wiki, or its first page, creates
//! it.
//!
//! Every step can be repeated: if a process stops after registering the wiki, the next attempt creates
//! it on the store.

use ferrite_proto::error::reason;
use ferrite_proto::git::CreateRepositoryRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::operation;
use ferrite_rpc::auth::AuthError;
use tonic::{Code, Status};

use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::Repository;

/// Default branch of the wiki if the repository has none.
const DEFAULT_BRANCH: &str = "main";

/// Operations that create the wiki.
const CREATING: [&str; 2] = [operation::RECEIVE_PACK, operation::CREATE_WIKI_PAGE];

/// Returns the id of the wiki on the store. A push and a new page create the wiki if there is none.
pub(super) async fn stored_id(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
) -> Result<i64, RepoError> {
    let found = state.repositories.find_wiki(repository.id()).await?;
    match found.filter(|wiki| wiki.is_made) {
        Some(wiki) => Ok(wiki.id),
        None if CREATING.contains(&authorized.operation()) && !repository.is_mirror => make(state, repository).await,
        None => Err(authorized.no_wiki(repository).into()),
    }
}

/// Whether the wiki exists on the store.
pub(super) async fn is_made(state: &AppState, repository: &Repository) -> Result<bool, RepoError> {
    let found = state.repositories.find_wiki(repository.id()).await?;
    Ok(found.is_some_and(|wiki| wiki.is_made))
}

async fn make(state: &AppState, repository: &Repository) -> Result<i64, RepoError> {
    let wiki = state.repositories.register_wiki(repository.id(), state.clock.now_us()).await?;
    let wiki = wiki.ok_or(AuthError::RepositoryNotFound)?;
    let branch = repository.default_branch.as_str();
    let request = CreateRepositoryRequest {
        repository_id: wiki.id,
        store: repository.store.clone(),
        epoch: repository.epoch,
        default_branch: if branch.is_empty() { DEFAULT_BRANCH } else { branch }.to_owned(),
        is_wiki: true,
        ..CreateRepositoryRequest::default()
    };
    StorageServiceClient::new(state.storage.with_store(&repository.store))
        .create_repository(request)
        .await
        .map_err(|status| map_status(&status))?;
    state.repositories.set_wiki_made(repository.id()).await?;
    tracing::info!(repo.id = repository.id, "created wiki {} of repository {}", wiki.id, repository.id);
    Ok(wiki.id)
}

fn map_status(status: &Status) -> RepoError {
    match (status.code(), reason(status).as_deref()) {
        (Code::FailedPrecondition, Some("STORE_FULL")) => RepoError::StoreUnavailable,
        _ => RepoError::of_store(status),
    }
}
