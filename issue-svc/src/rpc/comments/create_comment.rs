//! RPC `CreateComment`.

use ferrite_kit::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{CreateCommentRequest, CreateCommentResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::Body;
use crate::rpc::service::user;
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn create_comment(
    service: &IssueRpc,
    request: Request<CreateCommentRequest>,
) -> Result<CreateCommentResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let author = user(&grant)?;
    let key = IdempotencyKey::of(&request, author.0, "CreateComment")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    if request.check_only {
        service.issue(repository, request.issue_number).await?;
        return Ok(CreateCommentResponse { comment: None });
    }
    let create = async {
        let body = Body::parse_comment(request.body)?;
        service.limits.count_comment(&grant, body.as_str().len()).await?;
        let targets = service.targets(repository, author, body.as_str()).await?;
        let change = CounterChange { comments: 1, ..CounterChange::default() };
        let mut write = service.writer.begin(repository, change).await?;
        let issue = write.issue(request.issue_number).await?;
        let comment = write.add_comment(&issue, author, &body, &targets).await?;
        let (id, answer) = (comment.id, CreateCommentResponse { comment: Some(encode::comment(comment)) });
        write.commit_with_subject(key.as_ref(), answer, id).await
    };
    let number = request.issue_number;
    let rebuild = |id: i64| async move {
        Ok(CreateCommentResponse { comment: Some(encode::comment(service.comment(repository, number, id).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, create).await
}
