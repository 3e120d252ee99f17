//! Calls to git-svc about the tags and files of releases.

use std::time::Duration;

use ferrite_core::timestamp;
use ferrite_proto::error::reason;
use ferrite_proto::git::release_storage_service_client::ReleaseStorageServiceClient;
use ferrite_proto::git::{CreateTagRequest, DeleteAssetFilesRequest};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::grpc::{is_unsent, with_timeout};
use tonic::{Code, Status};

use crate::error::RepoError;
use crate::model::ReleaseFields;
use crate::state::AppState;
use crate::store::Repository;

/// Deadline for creating a tag. The tag name is claimed meanwhile.
const TAG_TIMEOUT: Duration = Duration::from_secs(20);

/// Creates the tag of a release if it does not exist. The store does not create it after
/// `deadline_us`, even if this call ended before.
pub(super) async fn create_tag(
    state: &AppState,
    user: UserId,
    repository: &Repository,
    fields: &ReleaseFields,
    deadline_us: i64,
) -> Result<(), Status> {
    let request = CreateTagRequest {
        repository_id: repository.id,
        tag_name: fields.tag_name.clone(),
        target: fields.target.clone(),
        user_id: user.0,
        is_mirror: repository.is_mirror,
        expire_time: Some(timestamp(deadline_us)),
    };
    let mut store = ReleaseStorageServiceClient::new(state.storage.with_store(&repository.store));
    store.create_tag(with_timeout(request, TAG_TIMEOUT)).await.map(drop)
}

/// Whether a failed [`create_tag`] creates no tag later either: the store refused, or was not
/// reached.
pub(super) fn creates_no_tag(status: &Status) -> bool {
    is_refused(status) || is_unsent(status)
}

fn is_refused(status: &Status) -> bool {
    matches!(
        (status.code(), reason(status).as_deref()),
        (Code::InvalidArgument | Code::Aborted | Code::NotFound, Some(_))
            | (Code::FailedPrecondition, Some("STORE_FULL" | "MIRROR_READ_ONLY"))
    )
}

pub(super) fn map_status(status: Status) -> RepoError {
    match is_refused(&status) {
        // Somebody else has just made the tag. A repeated request uses it.
        true if status.code() == Code::Aborted => RepoError::Interrupted,
        true => RepoError::Refused(Box::new(status)),
        false => RepoError::of_store(&status),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_race_for_a_tag_leaves_no_claim_and_can_be_repeated() {
        // git-svc responds with the same code, and a reason of its own.
        let lost = Status::from(RepoError::Interrupted);
        assert!(creates_no_tag(&lost));
        assert!(matches!(map_status(lost), RepoError::Interrupted));
        let refused = map_status(RepoError::field("target_commitish", "unknown", "is no branch").into());
        assert!(matches!(refused, RepoError::Refused(_)));
    }
}
