//! RPC `DeleteMilestone`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{DeleteMilestoneRequest, DeleteMilestoneResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::IssueRpc;
use crate::rpc::service::user;
use crate::store::CounterChange;

pub(super) async fn delete_milestone(
    service: &IssueRpc,
    request: Request<DeleteMilestoneRequest>,
) -> Result<DeleteMilestoneResponse, IssueError> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteMilestone")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        write.delete_milestone(request.milestone_id).await?;
        write.commit(key.as_ref(), DeleteMilestoneResponse {}).await
    };
    once(service.store.db(), key.as_ref(), delete).await
}
