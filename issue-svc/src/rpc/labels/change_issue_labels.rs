//! RPC `ChangeIssueLabels`.

use std::collections::BTreeSet;

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::{ChangeIssueLabelsRequest, ChangeIssueLabelsResponse, LabelChange};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;
use crate::writer::MAX_ISSUE_LABELS;

pub(super) async fn change_issue_labels(
    service: &IssueRpc,
    request: Request<ChangeIssueLabelsRequest>,
) -> Result<ChangeIssueLabelsResponse, Status> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "ChangeIssueLabels")?;
    let request = request.into_inner();
    if request.check_only {
        check(service, &request).await?;
        return Ok(ChangeIssueLabelsResponse { labels: Vec::new() });
    }
    Ok(once(service.store.db(), key.as_ref(), change(service, actor, &request, key.as_ref())).await?)
}

/// Checks that the issue exists.
async fn check(service: &IssueRpc, request: &ChangeIssueLabelsRequest) -> Result<(), IssueError> {
    let (repository, number) = (RepositoryId(request.repository_id), request.issue_number);
    let issue = service.store.find(&mut service.store.reader(), repository, number).await?;
    issue.map(|_| ()).ok_or(IssueError::NotFound { number })
}

async fn change(
    service: &IssueRpc,
    actor: UserId,
    request: &ChangeIssueLabelsRequest,
    key: Option<&IdempotencyKey>,
) -> Result<ChangeIssueLabelsResponse, IssueError> {
    let invalid = |field, code, message| IssueError::Invalid(vec![FieldViolation::new(field, code, message)]);
    let change = request.change();
    if change == LabelChange::Unspecified {
        return Err(invalid("change", "required", "must be add, replace or remove"));
    }
    let ids: BTreeSet<i64> = request.label_ids.iter().copied().collect();
    if ids.len() > MAX_ISSUE_LABELS {
        return Err(invalid("labels", "too_many", "an issue has at most 100 labels"));
    }
    let repository = RepositoryId(request.repository_id);
    let mut write = service.writer.begin(repository, CounterChange::default()).await?;
    let issue = write.issue(request.issue_number).await?;
    let labels = write.change_labels(&issue, change, &ids, actor).await?;
    let labels = labels.into_iter().map(encode::label).collect();
    write.commit(key, ChangeIssueLabelsResponse { labels }).await
}
