//! RPC `ChangeIssueLabels`.

use std::collections::BTreeSet;

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ChangeIssueLabelsRequest, ChangeIssueLabelsResponse, LabelChange};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;
use crate::writer::MAX_ISSUE_LABELS;

pub(super) async fn change_issue_labels(
    service: &IssueRpc,
    request: Request<ChangeIssueLabelsRequest>,
) -> Result<ChangeIssueLabelsResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "ChangeIssueLabels")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    if request.check_only {
        service.issue(repository, request.issue_number).await?;
        return Ok(ChangeIssueLabelsResponse { labels: Vec::new() });
    }
    let work = async {
        let change = request.change();
        if change == LabelChange::Unspecified {
            return Err(FieldViolation::new("change", "required", "must be add, replace or remove").into());
        }
        let ids: BTreeSet<i64> = request.label_ids.iter().copied().collect();
        if ids.len() > MAX_ISSUE_LABELS {
            return Err(FieldViolation::new("labels", "too_many", "an issue has at most 100 labels").into());
        }
        let mut write = service.writer.begin(repository, CounterChange::default()).await?;
        let issue = write.issue(request.issue_number).await?;
        let labels = write.change_labels(&issue, change, &ids, actor).await?;
        let labels = labels.into_iter().map(encode::label).collect();
        write.commit_with_subject(key.as_ref(), ChangeIssueLabelsResponse { labels }, request.issue_number).await
    };
    let rebuild = |number: i64| async move {
        let labels = service.full_issue(repository, number).await?.labels;
        Ok(ChangeIssueLabelsResponse { labels: labels.into_iter().map(encode::label).collect() })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, work).await
}
