use ferrite_proto::git::{PutContentsRequest, PutContentsResponse};
use tonic::Request;

use super::{commit, encode};
use crate::{
    app::App,
    failure::Failure,
    path::TreePath,
    write::{Prepared, PutFile, put_file},
};

/// Creates or replaces one file in one commit.
pub(super) async fn put_contents(
    app: &App,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, Failure> {
    let commit::Asked { request, draft, by } = commit::ask(app, request).await?;
    app.limits.check_file(request.content.len())?;
    let put = PutFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content.into(),
        draft,
    };
    let answer = |mut prepared: Prepared| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch }
    };
    commit::commit(app, by.write(put), put_file, answer).await
}
