//! RPC `DeleteMilestone`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{DeleteMilestoneRequest, DeleteMilestoneResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::IssueRpc;
use crate::rpc::service::user;
use crate::store::CounterChange;

pub(super) async fn delete_milestone(
    service: &IssueRpc,
    request: Request<DeleteMilestoneRequest>,
) -> Result<DeleteMilestoneResponse, Status> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteMilestone")?;
    let work = delete(service, request.into_inner(), key.as_ref());
    Ok(once(service.store.db(), key.as_ref(), work).await?)
}

async fn delete(
    service: &IssueRpc,
    request: DeleteMilestoneRequest,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteMilestoneResponse, IssueError> {
    let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
    write.delete_milestone(request.milestone_id).await?;
    write.commit(key, DeleteMilestoneResponse {}).await
}
