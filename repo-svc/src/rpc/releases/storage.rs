//! Calls to git-svc about the tags and files of releases.

use std::time::Duration;

use ferrite_proto::error::reason;
use ferrite_proto::git::release_storage_service_client::ReleaseStorageServiceClient;
use ferrite_proto::git::{CreateTagRequest, DeleteAssetFilesRequest};
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::grpc::with_timeout;
use tonic::{Code, Status};

use crate::error::RepoError;
use crate::model::ReleaseFields;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::Repository;

/// Deadline for creating a tag. The release is claimed meanwhile.
const TAG_TIMEOUT: Duration = Duration::from_secs(20);

/// Creates the tag of a release if it does not exist.
pub(super) async fn create_tag(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    fields: &ReleaseFields,
) -> Result<(), RepoError> {
    // Count first: a release rejected later must not leave a tag.
    state.db.count_write().await?;
    let request = CreateTagRequest {
        repository_id: repository.id,
        tag_name: fields.tag_name.clone(),
        target: fields.target.clone(),
        user_id: authorized.user()?.0,
        is_mirror: repository.is_mirror,
    };
    let mut store = ReleaseStorageServiceClient::new(state.storage.with_store(&repository.store));
    let made = store.create_tag(with_timeout(request, TAG_TIMEOUT)).await;
    made.map(drop).map_err(map_status)
}

fn map_status(status: Status) -> RepoError {
    match (status.code(), reason(&status).as_deref()) {
        (Code::InvalidArgument | Code::Aborted | Code::NotFound, Some(_))
        | (Code::FailedPrecondition, Some("STORE_FULL" | "MIRROR_READ_ONLY")) => RepoError::Refused(Box::new(status)),
        _ => RepoError::of_store(&status),
    }
}

/// Removes the bytes of released files from the store of their repository. If that fails, the
/// sweeper does it later.
pub(super) async fn remove_files(state: &AppState, repository: RepositoryId, store: &str, file_ids: Vec<String>) {
    if file_ids.is_empty() {
        return;
    }
    let request = DeleteAssetFilesRequest { repository_id: repository.0, file_ids: file_ids.clone() };
    let removed = ReleaseStorageServiceClient::new(state.storage.with_store(store)).delete_asset_files(request).await;
    if let Err(status) = removed {
        tracing::warn!(repo.id = %repository, %status, "cannot remove release files now; the sweeper will");
        return;
    }
    if let Err(error) = state.releases.forget_files(&file_ids).await {
        tracing::warn!(repo.id = %repository, %error, "cannot record that release files are removed");
    }
}
