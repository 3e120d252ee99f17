//! The wiki of a repository: its id on the store, where it is made when a push to it is asked for.
//!
//! Every step can be repeated: a wiki that was registered here and not made there, because a process stopped, is made by the next push.

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

/// Default branch of a wiki whose repository has none.
const DEFAULT_BRANCH: &str = "main";

/// Returns the id under which the store has the wiki of a repository.
///
/// # Errors
/// [`AuthError::RepositoryNotFound`] if there is no wiki and the operation is no push, or the repository was deleted meanwhile;
/// [`RepoError::StoreUnavailable`] and [`RepoError::Storage`] if the store does not make it; or those of the database.
pub(super) async fn stored_id(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
) -> Result<i64, RepoError> {
    let found = state.repositories.find_wiki(repository.id()).await?;
    match found.filter(|wiki| wiki.is_made) {
        Some(wiki) => Ok(wiki.id),
        None if authorized.operation() == operation::RECEIVE_PACK && !repository.is_mirror => {
            make(state, repository).await
        }
        None => Err(AuthError::RepositoryNotFound.into()),
    }
}

/// Returns whether the store has the wiki of a repository.
///
/// # Errors
/// Those of the database.
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
