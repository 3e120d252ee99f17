//! The RPCs of repositories and of the store. On startup, finishes the removal of repositories that
//! were deleted shortly before a crash.

use ferrite_proto::{
    events::Event,
    git::{
        self, CreateRepositoryRequest, CreateRepositoryResponse, DeleteRepositoryRequest, DeleteRepositoryResponse,
        GetStoreStatusRequest, GetStoreStatusResponse,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        templates::ReadmeValues,
        write::{Author, InitialCommit, initial_commit},
    },
    types::{
        error::GitError,
        name::{BranchName, check_new_name},
    },
};
use tonic::Request;

use super::finish;
use crate::{
    admission::limiter::ClientKey,
    db::{
        ImportTable, LanguageTable, MaintenanceTable, MergeTable, MirrorTable, ProtectionTable, PullHeadTable,
        RenamedBranchTable, RepositoryTable, StatusTable,
    },
    rpc_error::RpcError,
    state::AppState,
};

/// Creates a bare repository, optionally with an initial commit or as a copy of another one. An
/// existing repository stays as it is, except that a newer epoch is recorded.
pub(super) async fn create_repository(
    state: &AppState,
    request: Request<CreateRepositoryRequest>,
) -> Result<CreateRepositoryResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let repository = parse(state, request.into_inner())?;
    finish(state, async move |state| create(&state, repository).await).await
}

struct NewRepository {
    id: RepositoryId,
    epoch: i64,
    content: Content,
    is_wiki: bool,
    /// Author of the initial commit, or user who asked for the copy; 0 for none.
    user: i64,
}

enum Content {
    /// HEAD points to the branch, which has the initial commit if there is one.
    New(BranchName, Option<Box<InitialCommit>>),
    CopyOf(RepositoryId),
}

async fn create(state: &AppState, repository: NewRepository) -> Result<CreateRepositoryResponse, RpcError> {
    let id = repository.id;
    let guard = state.updater.lock(id).await?;
    let (store, epoch, now) = (state.store.name(), repository.epoch, state.clock.now_us());
    let row = state.repositories.place(id, store, epoch, repository.is_wiki, now).await?;
    if row.deleted || row.store != state.store.name() || row.epoch > repository.epoch {
        return Err(GitError::WrongStore.into());
    }
    if row.epoch < repository.epoch {
        state.repositories.raise(id, repository.epoch).await?;
        state.caches.epochs.invalidate(&id);
    }
    match repository.content {
        Content::New(branch, first) => {
            let fill = move |repo: &git2::Repository| first.map(|first| initial_commit(repo, &first)).transpose();
            state.pool.run_blocking(move |store| store.create(id, &branch, fill)).await?;
        }
        Content::CopyOf(source) => copy(state, id, source, repository.user).await?,
    }
    // True also when a call is repeated after a crash before the first journal entry.
    if row.last_number == 0 {
        state.updater.record_first(&guard, repository.user).await?;
    }
    let size = state.pool.run_blocking(move |store| store.size(id)).await?;
    let is_empty = state.refs.is_empty(id).await?;
    Ok(CreateRepositoryResponse { size_bytes: i64::try_from(size).unwrap_or(i64::MAX), is_empty })
}

async fn copy(state: &AppState, id: RepositoryId, source: RepositoryId, user: i64) -> Result<(), RpcError> {
    let row = state.repositories.find(source).await?.filter(|row| !row.deleted);
    let row = row.ok_or(GitError::RepositoryNotFound)?;
    if row.store != state.store.name() {
        return Err(GitError::WrongStore.into());
    }
    Ok(state.copies.copy(id, source, &ClientKey::User(user)).await?)
}

fn parse(state: &AppState, request: CreateRepositoryRequest) -> Result<NewRepository, GitError> {
    if request.repository_id <= 0 {
        return Err(GitError::invalid("repository_id", "invalid", "must be greater than 0"));
    }
    if request.store != state.store.name() {
        return Err(GitError::WrongStore);
    }
    let (id, epoch, is_wiki) = (RepositoryId(request.repository_id), request.epoch, request.is_wiki);
    if request.source_repository_id != 0 {
        if request.first_commit.is_some() {
            return Err(GitError::invalid("first_commit", "invalid", "must not be set for a copy"));
        }
        let content = Content::CopyOf(RepositoryId(request.source_repository_id));
        return Ok(NewRepository { id, epoch, content, is_wiki, user: request.user_id });
    }
    let branch = BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    check_new_name(branch.as_bytes(), "default_branch")?;
    let user = request.first_commit.as_ref().map_or(0, |first| first.user_id);
    let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
    let first = request.first_commit.map(|first| first_commit(first, seconds));
    if let Some(first) = &first {
        // Reject unknown templates before creating anything.
        first.files()?;
    }
    Ok(NewRepository { id, epoch, content: Content::New(branch, first.map(Box::new)), is_wiki, user })
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

/// Deletes a repository by moving its directory to the trash.
pub(super) async fn delete_repository(
    state: &AppState,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let id = RepositoryId(request.into_inner().repository_id);
    let remove = async move |state: AppState| {
        // Nobody else knows the wiki of an abandoned import.
        let wiki = state.imports.wiki_of(id).await?;
        delete(&state, id, &[]).await?;
        match wiki {
            Some(wiki) => delete(&state, wiki, &[]).await,
            None => Ok(()),
        }
    };
    finish(state, remove).await?;
    Ok(DeleteRepositoryResponse {})
}

/// Marks a repository as deleted together with the events that caused it, and moves its directory
/// to the trash.
///
/// The mark is committed first, so that all further requests are rejected. If a crash leaves the
/// directory behind, it is moved at the next start.
pub(super) async fn delete(state: &AppState, id: RepositoryId, events: &[Event]) -> Result<(), RpcError> {
    let guard = state.updater.lock(id).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    for event in events {
        ferrite_events::first_seen(&mut tx, event, now).await?;
    }
    RepositoryTable::delete(&mut tx, id, state.store.name(), now).await?;
    MaintenanceTable::forget(&mut tx, id).await?;
    LanguageTable::forget(&mut tx, id).await?;
    ProtectionTable::delete_all(&mut tx, id).await?;
    RenamedBranchTable::delete_all(&mut tx, id).await?;
    MergeTable::delete_all(&mut tx, id).await?;
    PullHeadTable::delete_all(&mut tx, id).await?;
    ImportTable::forget(&mut tx, id).await?;
    MirrorTable::forget(&mut tx, id).await?;
    StatusTable::delete_all(&mut tx, id).await?;
    tx.commit().await?;
    // Requests admitted earlier may still fill caches, so they are cleared again after the move.
    state.caches.forget(id);
    state.maintenance.stop(id).await;
    state.imports.stop(id).await;
    state.pool.run_blocking(move |store| store.delete(id)).await?;
    state.caches.forget(id);
    drop(guard);
    Ok(())
}

/// Moves the directories of repositories to the trash that were marked as deleted shortly before a
/// crash.
pub(crate) async fn remove_deleted(state: &AppState) -> Result<(), RpcError> {
    for id in state.repositories.deleted(state.store.name()).await? {
        if state.store.exists(id) {
            state.pool.run_blocking(move |store| store.delete(id)).await?;
        }
    }
    Ok(())
}

/// Returns the name of the store, its free disk space and its number of repositories.
pub(super) async fn get_store_status(
    state: &AppState,
    request: Request<GetStoreStatusRequest>,
) -> Result<GetStoreStatusResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let space = state.disk_space.measure(&state.store).await?;
    let name = state.store.name();
    Ok(GetStoreStatusResponse {
        name: name.to_owned(),
        free_bytes: i64::try_from(space.free_bytes).unwrap_or(i64::MAX),
        total_bytes: i64::try_from(space.total_bytes).unwrap_or(i64::MAX),
        repository_count: state.repositories.count(name).await?,
        is_writable: space.is_writable,
    })
}
