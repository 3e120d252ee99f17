use ferrite_kit::{auth::Caller, idempotency::IdempotencyKey};
use ferrite_proto::{
    git::{DeleteContentsRequest, DeleteContentsResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::commit::{self, Head, Write};
use crate::{
    app::App,
    failure::Failure,
    path::TreePath,
    protection::Actor,
    write::{DeleteFile, delete_file},
};

/// Removes one file in one commit.
pub(super) async fn delete_contents(
    app: &App,
    request: Request<DeleteContentsRequest>,
) -> Result<DeleteContentsResponse, Failure> {
    let caller = Caller::of(&request);
    let repository = request.get_ref().repository_id;
    let grant = app.authorize(&caller, repository).await?;
    let actor = Actor::of(&grant);
    let key = IdempotencyKey::of(&request, actor.user, "DeleteContents")?;
    let request = request.into_inner();
    let head = Head {
        branch: &request.branch,
        message: request.message,
        author: request.author,
        committer: request.committer,
    };
    let draft = head.draft(&grant, app)?;
    let delete = DeleteFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        draft,
    };
    let may_retry = delete.expected_blob.is_none();
    let write = Write { repository: RepositoryId(repository), actor, work: delete, key, may_retry };
    let answer = |prepared| {
        let (commit, branch) = commit::result(prepared);
        DeleteContentsResponse { commit, branch }
    };
    commit::commit(app, write, delete_file, answer).await
}
