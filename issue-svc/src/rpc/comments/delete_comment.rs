//! RPC `DeleteComment`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{DeleteCommentRequest, DeleteCommentResponse};
use tonic::{Request, Status};

use crate::error::IssueError;
use crate::rpc::IssueRpc;
use crate::rpc::service::{require_author_or, user};
use crate::store::CounterChange;

pub(super) async fn delete_comment(
    service: &IssueRpc,
    request: Request<DeleteCommentRequest>,
) -> Result<DeleteCommentResponse, Status> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteComment")?;
    let work = delete(service, &grant, request.into_inner(), key.as_ref());
    Ok(once(service.store.db(), key.as_ref(), work).await?)
}

async fn delete(
    service: &IssueRpc,
    grant: &Grant,
    request: DeleteCommentRequest,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteCommentResponse, IssueError> {
    let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
    let comment = write.comment(request.issue_number, request.comment_id).await?;
    require_author_or(grant, comment.author, Permission::Admin)?;
    write.delete_comment(comment, user(grant)?).await?;
    write.commit(key, DeleteCommentResponse {}).await
}
