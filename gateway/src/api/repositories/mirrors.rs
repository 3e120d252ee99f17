//! Mirrors: repositories that follow one elsewhere.

use ferrite_proto::error::{reason, violations};
use ferrite_proto::git::{SyncMirrorRequest, UpdateMirrorRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use tonic::Status;

use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::RepoPath;
use crate::http::response::Started;

operations! {
    "/api/v1/repos/{owner}/{repo}/mirror-sync" => post sync as operation::SYNC_MIRROR;
}

async fn sync(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Started> {
    let access = call.access(&path, operation::SYNC_MIRROR).await?;
    let request = call.request_with_grant(&access.grant, SyncMirrorRequest { repository_id: access.id });
    call.clients.mirrors().sync_mirror(request).await?;
    Ok(Started)
}

impl ApiCall {
    /// Changes the schedule of a mirror. Returns the id of its repository.
    ///
    /// # Errors
    /// 401, 403 or 404 of repo-svc; 422 that names the field `mirror_interval`, also for a repository that is no mirror.
    pub(super) async fn set_mirror_interval(
        &self,
        repository: RepositoryRef,
        interval_seconds: i64,
    ) -> Result<i64, ApiError> {
        let access = self.resolve(repository, operation::UPDATE_MIRROR).await?;
        let request = UpdateMirrorRequest { repository_id: access.id, interval_seconds };
        match self.clients.mirrors().update_mirror(self.request_with_grant(&access.grant, request)).await {
            Ok(_) => Ok(access.id),
            Err(status) => Err(interval_error(status)),
        }
    }
}

/// Returns the error of a request whose field for the interval has another name than that of the service.
fn interval_error(status: Status) -> ApiError {
    let message = match (violations(&status).pop(), reason(&status).as_deref()) {
        (Some((_, _, message)), _) => message,
        (None, Some("NOT_A_MIRROR")) => "is for mirrors only".to_owned(),
        (None, _) => return status.into(),
    };
    ApiError::invalid_field("mirror_interval", "invalid", message)
}
