//! `CreateRepository`: a bare repository on this store, with its first commit if the request asks for one.

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{self, CreateRepositoryRequest, CreateRepositoryResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::finish::finish;
use crate::{
    repo::{
        templates::ReadmeValues,
        write::{Author, InitialCommit, initial_commit},
    },
    state::AppState,
    types::{error::GitError, name::BranchName, rpc_error::RpcError},
};

/// A checked request for a repository.
struct NewRepository {
    id: RepositoryId,
    epoch: i64,
    branch: BranchName,
    first: Option<InitialCommit>,
    /// Id of the user of the initial commit; 0 if none.
    user: i64,
}

/// Creates a repository. One that exists is left as it is, but for its epoch, which is raised if the request has a newer one.
pub(super) async fn create_repository(
    state: &AppState,
    request: Request<CreateRepositoryRequest>,
) -> Result<CreateRepositoryResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let repository = parse(state, request.into_inner())?;
    let own = state.clone();
    finish(state, async move { create(&own, repository).await }).await
}

async fn create(state: &AppState, repository: NewRepository) -> Result<CreateRepositoryResponse, RpcError> {
    let id = repository.id;
    let guard = state.updater.lock(id).await?;
    let row = state.repositories.place(id, state.store.name(), repository.epoch, state.clock.now_us()).await?;
    if row.deleted || row.store != state.store.name() || row.epoch > repository.epoch {
        return Err(GitError::WrongStore.into());
    }
    if row.epoch < repository.epoch {
        state.repositories.raise(id, repository.epoch).await?;
        state.caches.epochs.forget(id);
    }
    let (branch, first) = (repository.branch, repository.first);
    let fill = move |repo: &git2::Repository| first.map(|first| initial_commit(repo, &first)).transpose();
    state.pool.run_blocking(move |store| store.create(id, &branch, fill)).await?;
    // Also for a repeated call after a crash that came before the first entry in the journal.
    if row.last_number == 0 {
        state.updater.record_first(&guard, repository.user).await?;
    }
    let size = state.pool.run_blocking(move |store| store.size(id)).await?;
    let is_empty = state.refs.is_empty(id).await?;
    Ok(CreateRepositoryResponse { size_bytes: i64::try_from(size).unwrap_or(i64::MAX), is_empty })
}

fn parse(state: &AppState, request: CreateRepositoryRequest) -> Result<NewRepository, GitError> {
    if request.repository_id <= 0 {
        return Err(GitError::invalid("repository_id", "invalid", "must be above 0"));
    }
    if request.store != state.store.name() {
        return Err(GitError::WrongStore);
    }
    let branch = BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    let user = request.first_commit.as_ref().map_or(0, |first| first.user_id);
    let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
    let first = request.first_commit.map(|first| first_commit(first, seconds));
    if let Some(first) = &first {
        // Refuses unknown templates before anything is created.
        first.files()?;
    }
    Ok(NewRepository { id: RepositoryId(request.repository_id), epoch: request.epoch, branch, first, user })
}

fn first_commit(first: git::FirstCommit, seconds: i64) -> InitialCommit {
    let author = first.author.unwrap_or_default();
    InitialCommit {
        author: Author::new(&author.name, &author.email, seconds),
        gitignores: first.gitignores,
        license: first.license,
        readme: first.readme,
        values: ReadmeValues {
            name: first.repository_name,
            description: first.repository_description,
            clone_url_ssh: first.clone_url_ssh,
            clone_url_http: first.clone_url_http,
        },
    }
}
