use ferrite_kit::{auth::Caller, idempotency::IdempotencyKey};
use ferrite_proto::{
    git::{PutContentsRequest, PutContentsResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{
    commit::{self, Head, Write},
    encode,
};
use crate::{
    app::App,
    failure::Failure,
    path::TreePath,
    protection::Actor,
    write::{PutFile, put_file},
};

/// Creates or replaces one file in one commit.
pub(super) async fn put_contents(
    app: &App,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, Failure> {
    let caller = Caller::of(&request);
    let repository = request.get_ref().repository_id;
    let grant = app.authorize(&caller, repository).await?;
    let actor = Actor::of(&grant);
    let key = IdempotencyKey::of(&request, actor.user, "PutContents")?;
    let request = request.into_inner();
    let head = Head {
        branch: &request.branch,
        message: request.message,
        author: request.author,
        committer: request.committer,
    };
    let draft = head.draft(&grant, app)?;
    let put = PutFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content.into(),
        draft,
    };
    let may_retry = put.expected_blob.is_none();
    let write = Write { repository: RepositoryId(repository), actor, work: put, key, may_retry };
    let answer = |mut prepared: crate::write::Prepared| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch }
    };
    commit::commit(app, write, put_file, answer).await
}
