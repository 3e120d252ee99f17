//! RPC `UpdateMilestone`.

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{UpdateMilestoneRequest, UpdateMilestoneResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Description, MilestoneTitle};
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;
use crate::writer::MilestoneChange;

pub(super) async fn update_milestone(
    service: &IssueRpc,
    request: Request<UpdateMilestoneRequest>,
) -> Result<UpdateMilestoneResponse, IssueError> {
    let grant = service.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateMilestone")?;
    let request = request.into_inner();
    let (repository, id) = (RepositoryId(request.repository_id), request.milestone_id);
    let update = async {
        let change = decode(request)?;
        let mut write = service.writer.begin(repository, CounterChange::default()).await?;
        let milestone = write.change_milestone(id, change).await?;
        let (id, answer) = (milestone.id, UpdateMilestoneResponse { milestone: Some(encode::milestone(milestone)) });
        write.commit_with_subject(key.as_ref(), answer, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(UpdateMilestoneResponse { milestone: Some(encode::milestone(service.milestone(repository, id).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, update).await
}

fn decode(request: UpdateMilestoneRequest) -> Result<MilestoneChange, IssueError> {
    let title = request.title.as_deref().map(MilestoneTitle::parse).transpose();
    let description = request.description.map(Description::parse).transpose();
    let is_closed = encode::is_closed(request.state);
    let due_us = match (request.due_time, request.clear_due_time) {
        (Some(_), true) => Err(FieldViolation::new("due_on", "invalid", "must be absent when it is removed")),
        (Some(time), false) => Ok(Some(Some(encode::micros(time)))),
        (None, true) => Ok(Some(None)),
        (None, false) => Ok(None),
    };
    match (title, description, is_closed, due_us) {
        (Ok(title), Ok(description), Ok(is_closed), Ok(due_us)) => {
            Ok(MilestoneChange { title, description, is_closed, due_us })
        }
        (title, description, is_closed, due_us) => {
            Err(IssueError::invalid([title.err(), description.err(), is_closed.err(), due_us.err()]))
        }
    }
}
