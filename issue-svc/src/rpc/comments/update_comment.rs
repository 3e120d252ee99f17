//! RPC `UpdateComment`.

use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{UpdateCommentRequest, UpdateCommentResponse};
use tonic::Request;

use crate::error::IssueError;
use crate::model::Body;
use crate::rpc::service::{require_author_or, user};
use crate::rpc::{IssueRpc, encode};
use crate::store::CounterChange;

pub(super) async fn update_comment(
    service: &IssueRpc,
    request: Request<UpdateCommentRequest>,
) -> Result<UpdateCommentResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UpdateComment")?;
    let request = request.into_inner();
    if request.check_only {
        check(service, &grant, &request).await?;
        return Ok(UpdateCommentResponse { comment: None });
    }
    if let Some(key) = &key
        && key.is_used(service.store.db()).await.map_err(IdempotencyError::from)?
    {
        // Readers get a grant to edit as well. Who may edit this one is checked here for repeated requests too.
        check(service, &grant, &request).await?;
    }
    let update = async {
        let repository = RepositoryId(request.repository_id);
        let body = match Body::parse_comment(request.body.clone()) {
            Ok(body) => body,
            Err(violation) => {
                check(service, &grant, &request).await?;
                return Err(violation.into());
            }
        };
        service.limits.count_text(&grant, body.as_str().len()).await?;
        let targets = service.targets(repository, actor, body.as_str()).await?;
        let mut write = service.writer.begin(repository, CounterChange::default()).await?;
        let comment = write.comment(request.issue_number, request.comment_id).await?;
        require_author_or(&grant, comment.author, Permission::Admin)?;
        let comment = write.change_comment(comment, &body, &targets, actor).await?;
        let (id, answer) = (comment.id, UpdateCommentResponse { comment: Some(encode::comment(comment)) });
        write.commit_with_subject(key.as_ref(), answer, id).await
    };
    let (repository, number) = (RepositoryId(request.repository_id), request.issue_number);
    let rebuild = |id: i64| async move {
        Ok(UpdateCommentResponse { comment: Some(encode::comment(service.comment(repository, number, id).await?)) })
    };
    once_or_rebuild(service.store.db(), key.as_ref(), rebuild, update).await
}

/// Checks that the caller may change the comment, if it exists.
async fn check(service: &IssueRpc, grant: &Grant, request: &UpdateCommentRequest) -> Result<(), IssueError> {
    let store = &service.store;
    let UpdateCommentRequest { repository_id, issue_number, comment_id, .. } = request;
    let comment = store.comment(store.reader(), RepositoryId(*repository_id), *issue_number, *comment_id).await?;
    comment.map_or(Ok(()), |comment| require_author_or(grant, comment.author, Permission::Admin))
}
