//! RPC `CreateMilestone`.

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{CreateMilestoneRequest, CreateMilestoneResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Description, MilestoneTitle};
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn create_milestone(
    service: &IssueRpc,
    request: Request<CreateMilestoneRequest>,
) -> Result<CreateMilestoneResponse, IssueError> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateMilestone")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let (title, text) = match (MilestoneTitle::parse(&request.title), Description::parse(request.description)) {
            (Ok(title), Ok(text)) => (title, text),
            (title, text) => return Err(IssueError::invalid([title.err(), text.err()])),
        };
        let change = CounterChange { milestones: 1, ..CounterChange::default() };
        let mut write = service.writer.begin(repository, change).await?;
        let milestone = write.add_milestone(&title, &text, request.due_time.map(encode::micros)).await?;
        let (id, answer) = (milestone.id, CreateMilestoneResponse { milestone: Some(encode::milestone(milestone)) });
        write.commit_with_subject(key.as_ref(), answer, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(CreateMilestoneResponse { milestone: Some(encode::milestone(service.milestone(repository, id).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, create).await
}
