//! `ListCommits`: a page of the log of a revision, or of a path in it.

use std::time::Duration;

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListCommitsRequest, ListCommitsResponse},
    id::RepositoryId,
};
use git2::Oid;
use tonic::Request;

use crate::{
    admission::limiter::ClientKey,
    repo::{
        read::{
            self, Deadline, LogPage, PathLogKey,
            deadline::READ_TIMEOUT,
            log::{MAX_PATH_STEPS, PathLog, page_of, skipped},
        },
        refs::Page,
        revision::Revision,
    },
    rpc::{decode, encode},
    state::AppState,
    types::{error::GitError, path::TreePath, rpc_error::RpcError},
};

/// Time limit of a search by `git rev-list` for the commits that changed a path.
const REV_LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a page of history.
pub(super) async fn list_commits(
    state: &AppState,
    request: Request<ListCommitsRequest>,
) -> Result<ListCommitsResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorize(&caller, id).await?;
    let client = ClientKey::of(&caller, &grant, request.metadata().as_ref());
    let request = request.into_inner();
    let page = decode::parse_page(request.page, request.page_size)?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.path).map_err(|error| error.of("path"))?;
    let found = history(state, &client, id, LogQuery { revision, path, page }, MAX_PATH_STEPS).await?;
    Ok(ListCommitsResponse {
        commits: found.commits.into_iter().map(encode::commit).collect(),
        has_more: found.has_more,
        total_count: found.total.map(encode::total_count),
    })
}

/// Part of the history that a client asks for.
struct LogQuery {
    revision: Revision,
    path: TreePath,
    page: Page,
}

/// Returns a page of history, walked by libgit2; by git if the walk along a path takes more than `steps` commits.
async fn history(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    query: LogQuery,
    steps: usize,
) -> Result<LogPage, GitError> {
    let LogQuery { revision, path, page } = query;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    if path.is_root() {
        return state.pool.run(id, move |repo| read::log(repo, &revision, page, &deadline)).await;
    }
    let own = path.clone();
    let job = move |repo: &git2::Repository| read::log_of_path(repo, &revision, &own, page, steps, &deadline);
    match state.pool.run(id, job).await? {
        PathLog::Page(page) => Ok(page),
        PathLog::TooLong(tip) => page_by_git(state, client, id, tip, &path, page).await,
    }
}

/// Searches with `git rev-list`, which is fast where maintenance has written changed-path filters. Results are cached.
async fn page_by_git(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    tip: Oid,
    path: &TreePath,
    page: Page,
) -> Result<LogPage, GitError> {
    // git reads paths from its input one per line, so a path with a line break cannot be given.
    if path.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(GitError::TimedOut { what: "the log" });
    }
    let find = async {
        let _permit = state.limiters.log.acquire(id, client).await?;
        let child = state.git.rev_list(&state.store.path(id), skipped(page), page.size.saturating_add(1))?;
        let input = [tip.to_string().as_bytes(), b"\n--\n", path.as_bytes(), b"\n"].concat();
        let output = child.finish(&input, REV_LIST_TIMEOUT).await?;
        let ids = String::from_utf8_lossy(&output);
        Ok(ids.lines().map(Oid::from_str).collect::<Result<Vec<_>, _>>()?)
    };
    let ids = state.caches.path_logs.get(PathLogKey::new(id, tip, path, page), find).await?;
    state.pool.run(id, move |repo| page_of(repo, &ids, page)).await
}
