//! RPC `DeleteComment`.

use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::Permission;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{DeleteCommentRequest, DeleteCommentResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::IssueRpc;
use crate::rpc::service::{require_author_or, user};
use crate::store::CounterChange;

pub(super) async fn delete_comment(
    service: &IssueRpc,
    request: Request<DeleteCommentRequest>,
) -> Result<DeleteCommentResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "DeleteComment")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = service.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        let comment = write.comment(request.issue_number, request.comment_id).await?;
        require_author_or(&grant, comment.author, Permission::Admin)?;
        write.delete_comment(comment, actor).await?;
        write.commit(key.as_ref(), DeleteCommentResponse {}).await
    };
    once(service.store.db(), key.as_ref(), delete).await
}
