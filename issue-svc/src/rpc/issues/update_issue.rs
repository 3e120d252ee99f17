//! RPC `UpdateIssue`.

use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{UpdateIssueRequest, UpdateIssueResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::{Body, IssueChange, Title};
use crate::rpc::service::{require_author_or, user};
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;
use crate::writer::TextTargets;

pub(super) async fn update_issue(
    service: &IssueRpc,
    request: Request<UpdateIssueRequest>,
) -> Result<UpdateIssueResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateIssue")?;
    let request = request.into_inner();
    if request.check_only {
        check(service, &grant, &request).await?;
        return Ok(UpdateIssueResponse { issue: None });
    }
    if let Some(key) = &key
        && key.is_used(service.store.db()).await.map_err(IdempotencyError::from)?
    {
        // Readers get a grant to edit as well. Who may edit this one is checked here for repeated requests too.
        check(service, &grant, &request).await?;
    }
    let update = async {
        let (change, targets) = match decode(service, &grant, &request).await {
            Ok(decoded) => decoded,
            Err(error) => {
                check(service, &grant, &request).await?;
                return Err(error);
            }
        };
        service.limits.count_text(&grant, change.body.as_ref().map_or(0, |body| body.as_str().len())).await?;
        let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        let issue = write.issue(request.number).await?;
        require_author_or(&grant, issue.author, Permission::Write)?;
        let issue = write.change(issue, change, &targets, user(&grant)?).await?;
        let answer = UpdateIssueResponse { issue: Some(encode::issue(issue)) };
        write.commit_with_subject(key.as_ref(), answer, request.number).await
    };
    let repository = RepositoryId(request.repository_id);
    let rebuild = |number: i64| async move {
        Ok(UpdateIssueResponse { issue: Some(encode::issue(service.full_issue(repository, number).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, update).await
}

/// Checks that the issue exists and that the caller may change it.
async fn check(service: &IssueRpc, grant: &Grant, request: &UpdateIssueRequest) -> Result<(), IssueError> {
    let issue = service.issue(RepositoryId(request.repository_id), request.number).await?;
    require_author_or(grant, issue.author, Permission::Write)
}

/// Returns the change, and what its body refers to.
async fn decode(
    service: &IssueRpc,
    grant: &Grant,
    request: &UpdateIssueRequest,
) -> Result<(IssueChange, TextTargets), IssueError> {
    let (repository, actor) = (RepositoryId(request.repository_id), user(grant)?);
    let title = request.title.as_deref().map(Title::parse).transpose();
    let body = request.body.clone().map(Body::parse).transpose();
    let is_closed = encode::is_closed(request.state);
    let (title, body, is_closed) = match (title, body, is_closed) {
        (Ok(title), Ok(body), Ok(is_closed)) => (title, body, is_closed),
        (title, body, is_closed) => return Err(IssueError::invalid([title.err(), body.err(), is_closed.err()])),
    };
    let mut change = IssueChange { title, body, is_closed, ..IssueChange::default() };
    if grant.permission >= Permission::Write {
        change.milestone_id = request.milestone_id;
        change.assignee = match request.assignee.as_deref() {
            None => None,
            Some("") => Some(None),
            Some(name) => Some(Some(service.repo.assignee(repository, name).await?)),
        };
    }
    let targets = match &change.body {
        Some(body) => service.targets(repository, actor, body.as_str()).await?,
        None => TextTargets::default(),
    };
    Ok((change, targets))
}
