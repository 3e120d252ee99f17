//! The RPCs of releases: their tags and asset files.

use ferrite_listener::service;
use ferrite_proto::{
    git::{
        CreateTagRequest, CreateTagResponse, DeleteAssetFilesRequest, DeleteAssetFilesResponse,
        release_storage_service_server::ReleaseStorageService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    disk::assets::{AssetFileId, delete_assets},
    repo::{
        refs::{RefEdit, lookup},
        revision::Revision,
    },
    types::{
        error::GitError,
        name::{BranchName, RefName, check_new_name},
    },
};
use git2::Repository;
use tonic::Request;

use super::finish;
use crate::{
    db::{RefTransaction, UpdateKind},
    rpc_error::RpcError,
    state::AppState,
};

const MAX_FILES: usize = 1_000;

service!(ReleaseStorageService for AppState {
    create_tag(CreateTagRequest) -> CreateTagResponse;
    delete_asset_files(DeleteAssetFilesRequest) -> DeleteAssetFilesResponse;
});

/// Creates a lightweight tag unless one with this name exists.
async fn create_tag(state: &AppState, request: Request<CreateTagRequest>) -> Result<CreateTagResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let tag = parse_tag(&request.into_inner())?;
    let was_made = finish(state, async move |state| make_tag(&state, tag).await).await?;
    Ok(CreateTagResponse { was_made })
}

struct NewTag {
    repository: RepositoryId,
    name: RefName,
    target: Revision,
    user: i64,
    is_mirror: bool,
    /// Whole seconds since 1970; `None` for no limit.
    expire_secs: Option<i64>,
}

fn parse_tag(request: &CreateTagRequest) -> Result<NewTag, GitError> {
    let short = request.tag_name.as_bytes();
    // The rules for branch names also keep a tag from being mistaken for something else.
    BranchName::parse(short).map_err(|error| error.of("tag_name"))?;
    let name = RefName::parse(&[b"refs/tags/", short].concat()).map_err(|error| error.of("tag_name"))?;
    let target = Revision::parse(request.target.as_bytes()).map_err(unknown_target)?;
    Ok(NewTag {
        repository: RepositoryId(request.repository_id),
        name,
        target,
        user: request.user_id,
        is_mirror: request.is_mirror,
        expire_secs: request.expire_time.as_ref().map(|time| time.seconds),
    })
}

/// Returns whether this call created the tag.
async fn make_tag(state: &AppState, tag: NewTag) -> Result<bool, RpcError> {
    let id = tag.repository;
    let guard = state.updater.lock(id).await?;
    let (name, target, is_mirror) = (tag.name.clone(), tag.target, tag.is_mirror);
    let job = move |repo: &Repository| {
        if lookup(repo, &name)?.is_some() {
            return Ok(None);
        }
        if is_mirror {
            return Err(GitError::MirrorReadOnly);
        }
        check_new_name(name.short(), "tag_name")?;
        target.resolve(repo).map(|resolved| Some(resolved.commit)).map_err(unknown_target)
    };
    let Some(commit) = state.pool.run(id, job).await? else { return Ok(false) };
    let edit = RefEdit { name: tag.name, old: None, new: Some(commit) };
    let change = RefTransaction::new(UpdateKind::Api, tag.user, vec![edit]);
    // The caller has given up by then. Another request may be creating the tag.
    if tag.expire_secs.is_some_and(|seconds| state.clock.now_us() / 1_000_000 > seconds) {
        return Err(GitError::TimedOut { what: "creating the tag" }.into());
    }
    let applied = state.updater.apply::<()>(&guard, &change, None).await;
    let delivered = applied.map_err(|error| match error {
        RpcError::Git(GitError::RefNameClash { .. }) => {
            GitError::invalid("tag_name", "taken", "conflicts with another tag").into()
        }
        error => error,
    })?;
    drop(guard);
    delivered.await;
    Ok(true)
}

fn unknown_target(error: GitError) -> GitError {
    match error {
        GitError::RevisionNotFound => {
            GitError::invalid("target_commitish", "unknown", "is neither a branch nor a commit")
        }
        error => error,
    }
}

async fn delete_asset_files(
    state: &AppState,
    request: Request<DeleteAssetFilesRequest>,
) -> Result<DeleteAssetFilesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let invalid = || GitError::invalid("file_ids", "invalid", "must be at most 1,000 file ids");
    let ids = request.file_ids.iter().map(|id| AssetFileId::parse(id.as_bytes()));
    let ids: Vec<_> = ids.collect::<Option<_>>().ok_or_else(invalid)?;
    if ids.len() > MAX_FILES {
        return Err(invalid().into());
    }
    let id = RepositoryId(request.repository_id);
    state.pool.run_blocking(move |store| delete_assets(store, id, &ids)).await?;
    Ok(DeleteAssetFilesResponse {})
}
