use ferrite_proto::git::{GetTreeRequest, GetTreeResponse, ObjectType, TreeItem};
use tonic::Request;

use crate::{
    repo::{
        read::{self, Deadline, EntryKind, deadline::READ_TIMEOUT},
        revision::Revision,
    },
    rpc::authorize,
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns the entries of a tree.
pub(super) async fn get_tree(state: &AppState, request: Request<GetTreeRequest>) -> Result<GetTreeResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.tree_ish)?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let is_recursive = request.is_recursive;
    // The response is made on the thread of the pool, too: it may have very many entries.
    let job = move |repo: &git2::Repository| {
        let found = read::tree(repo, &revision, is_recursive, &deadline)?;
        Ok(GetTreeResponse {
            tree_id: found.id.to_string(),
            items: found.items.into_iter().map(item).collect(),
            is_truncated: found.is_truncated,
        })
    };
    Ok(state.pool.run(id, job).await?)
}

fn item(item: read::tree::TreeItem) -> TreeItem {
    let kind = match EntryKind::of(i32::try_from(item.mode).unwrap_or(0)) {
        EntryKind::File | EntryKind::Symlink => ObjectType::Blob,
        EntryKind::Directory => ObjectType::Tree,
        EntryKind::Submodule => ObjectType::Commit,
    };
    TreeItem {
        path: item.path,
        mode: item.mode,
        r#type: kind.into(),
        id: item.id.to_string(),
        size_bytes: item.size.map(|size| i64::try_from(size).unwrap_or(i64::MAX)),
    }
}
