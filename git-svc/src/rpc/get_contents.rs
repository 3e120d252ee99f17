use ferrite_proto::git::{Directory, GetContentsRequest, GetContentsResponse, get_contents_response::Contents};
use tonic::Request;

use super::{authorize, encode};
use crate::{
    repo::{
        read::{self, Target},
        revision::Revision,
    },
    state::AppState,
    types::{error::GitError, path::TreePath, rpc_error::RpcError},
};

/// Returns the file or directory at a path. An invalid path answers `PathNotFound`, like a missing one.
pub(super) async fn get_contents(
    state: &AppState,
    request: Request<GetContentsRequest>,
) -> Result<GetContentsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.path).map_err(|_| GitError::PathNotFound)?;
    // The response is made on the thread of the pool, too: it may have very many entries.
    let job = move |repo: &git2::Repository| Ok(response(read::contents(repo, &revision, &path)?));
    Ok(state.pool.run(id, job).await?)
}

fn response(found: read::Contents) -> GetContentsResponse {
    let contents = match found.target {
        Target::Entry(entry) => Contents::Entry(encode::entry(entry)),
        Target::Directory(entries) => {
            Contents::Directory(Directory { entries: entries.into_iter().map(encode::entry).collect() })
        }
    };
    GetContentsResponse {
        contents: Some(contents),
        commit_id: found.commit.map(|id| id.to_string()).unwrap_or_default(),
        display_ref: found.display_ref,
    }
}
