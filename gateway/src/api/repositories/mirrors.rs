use ferrite_core::version::Precondition;
use ferrite_proto::error::{reason, violations};
use ferrite_proto::git::{SyncMirrorRequest, UpdateMirrorRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::version::VersionedCall;
use tonic::Status;

use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::body::NoBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::RepoPath;
use crate::http::response::Started;

operations! {
    "/api/v1/repos/{owner}/{repo}/mirror-sync" => post sync as operation::SYNC_MIRROR;
}

async fn sync(Authenticated(call): Authenticated, path: RepoPath, body: NoBody) -> ApiResult<Started> {
    let access = call.access(&path, operation::SYNC_MIRROR).await?;
    body.read()?;
    let request = call.request_with_grant(&access.grant, SyncMirrorRequest { repository_id: access.id });
    call.clients.mirrors().sync_mirror(request).await?;
    Ok(Started)
}

impl ApiCall {
    /// Checks, without a change, that [`Self::set_mirror_interval`] would succeed or has already
    /// done so under the idempotency key. Returns the id of the repository.
    pub(super) async fn check_mirror_interval(
        &self,
        repository: RepositoryRef,
        interval_seconds: i64,
    ) -> Result<i64, ApiError> {
        // The precondition is never true: git-svc reports every other error first, and commits
        // nothing.
        let never = VersionedCall::requiring(operation::UPDATE_MIRROR, Precondition::Never);
        let (id, outcome) = self.update_mirror(repository, interval_seconds, Some(never)).await?;
        match outcome {
            Err(status) if reason(&status).as_deref() != Some("PRECONDITION_FAILED") => Err(interval_error(status)),
            Ok(()) | Err(_) => Ok(id),
        }
    }

    /// Changes the schedule of a mirror, once per idempotency key. Errors, also for a repository
    /// that is not a mirror, name the field `mirror_interval`.
    pub(super) async fn set_mirror_interval(
        &self,
        repository: RepositoryRef,
        interval_seconds: i64,
    ) -> Result<(), ApiError> {
        let (_, outcome) = self.update_mirror(repository, interval_seconds, None).await?;
        outcome.map_err(interval_error)
    }

    /// Asks git-svc for another schedule. Returns the id of the repository and git-svc's response.
    async fn update_mirror(
        &self,
        repository: RepositoryRef,
        interval_seconds: i64,
        versioned: Option<VersionedCall>,
    ) -> Result<(i64, Result<(), Status>), ApiError> {
        let access = self.resolve(repository, operation::UPDATE_MIRROR).await?;
        let request = UpdateMirrorRequest { repository_id: access.id, interval_seconds };
        let mut request = self.request_with_grant(&access.grant, request);
        if let Some(versioned) = versioned {
            request.extensions_mut().insert(versioned);
        }
        Ok((access.id, self.clients.mirrors().update_mirror(request).await.map(drop)))
    }
}

/// Renames the field of the interval from the service's name to the API's. An error about the
/// idempotency key stays as it is.
fn interval_error(status: Status) -> ApiError {
    let violation = violations(&status).into_iter().find(|(field, ..)| field == "interval_seconds");
    let message = match (violation, reason(&status).as_deref()) {
        (Some((_, _, message)), _) => message,
        (None, Some("NOT_A_MIRROR")) => "is only allowed for mirrors".to_owned(),
        (None, _) => return status.into(),
    };
    ApiError::invalid_field("mirror_interval", "invalid", message)
}
