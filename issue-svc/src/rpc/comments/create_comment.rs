//! RPC `CreateComment`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{CreateCommentRequest, CreateCommentResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::model::Body;
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn create_comment(
    service: &IssueRpc,
    request: Request<CreateCommentRequest>,
) -> Result<CreateCommentResponse, Status> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateComment")?;
    let request = request.into_inner();
    if request.check_only {
        check(service, &request).await?;
        return Ok(CreateCommentResponse { comment: None });
    }
    Ok(once(service.store.db(), key.as_ref(), create(service, &grant, request, key.as_ref())).await?)
}

/// Checks that the issue exists.
async fn check(service: &IssueRpc, request: &CreateCommentRequest) -> Result<(), IssueError> {
    let (repository, number) = (RepositoryId(request.repository_id), request.issue_number);
    let issue = service.store.find(&mut service.store.reader(), repository, number).await?;
    issue.map(|_| ()).ok_or(IssueError::NotFound { number })
}

async fn create(
    service: &IssueRpc,
    grant: &Grant,
    request: CreateCommentRequest,
    key: Option<&IdempotencyKey>,
) -> Result<CreateCommentResponse, IssueError> {
    let (repository, author) = (RepositoryId(request.repository_id), user(grant)?);
    let body = Body::parse_comment(request.body).map_err(|violation| IssueError::Invalid(vec![violation]))?;
    service.limits.count_comment(grant, body.as_str().len()).await?;
    let targets = service.targets(repository, author, body.as_str()).await?;
    let change = CounterChange { comments: 1, ..CounterChange::default() };
    let mut write = service.writer.begin(repository, change).await?;
    let issue = write.issue(request.issue_number).await?;
    let comment = write.add_comment(&issue, author, &body, &targets).await?;
    write.commit(key, CreateCommentResponse { comment: Some(encode::comment(comment)) }).await
}
