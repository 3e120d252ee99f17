use std::time::Duration;

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListCommitsRequest, ListCommitsResponse},
    id::RepositoryId,
};
use git2::Oid;
use tonic::Request;

use super::encode;
use crate::{
    app::App,
    error::GitError,
    failure::Failure,
    http::Client,
    path::TreePath,
    read::{
        self, LogPage, PathLogKey, Watch,
        log::{PATH_STEPS, PathLog, page_of, skipped},
        watch::READ_TIME,
    },
    refs::Page,
    revision::Revision,
};

/// How long git may look for commits that changed a path.
const GIT_TIME: Duration = Duration::from_secs(30);

/// Returns a page of history.
pub(super) async fn list_commits(
    app: &App,
    request: Request<ListCommitsRequest>,
) -> Result<ListCommitsResponse, Failure> {
    let caller = Caller::of(&request);
    let grant = app.authorize(&caller, request.get_ref().repository_id).await?;
    let client = Client::of(&caller, &grant, request.metadata().as_ref());
    let request = request.into_inner();
    let page = super::page(request.page, request.page_size)?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.path).map_err(|error| error.of("path"))?;
    let found =
        history(app, &client, RepositoryId(request.repository_id), Asked { revision, path, page }, PATH_STEPS).await?;
    Ok(ListCommitsResponse {
        commits: found.commits.into_iter().map(encode::commit).collect(),
        has_more: found.has_more,
        total_count: found.total.map(super::count),
    })
}

/// What a client wants to see.
struct Asked {
    revision: Revision,
    path: TreePath,
    page: Page,
}

async fn history(
    app: &App,
    client: &Client,
    id: RepositoryId,
    asked: Asked,
    steps: usize,
) -> Result<LogPage, GitError> {
    let Asked { revision, path, page } = asked;
    let (watch, _waiting) = Watch::start(READ_TIME);
    if path.is_root() {
        return app.pool.run(id, move |repo| read::log(repo, &revision, page, &watch)).await;
    }
    let own = path.clone();
    let job = move |repo: &git2::Repository| read::log_of_path(repo, &revision, &own, page, steps, &watch);
    match app.pool.run(id, job).await? {
        PathLog::Page(page) => Ok(page),
        PathLog::TooLong(tip) => by_git(app, client, id, tip, &path, page).await,
    }
}

/// Asks git, which has filters of changed paths where maintenance made them.
async fn by_git(
    app: &App,
    client: &Client,
    id: RepositoryId,
    tip: Oid,
    path: &TreePath,
    page: Page,
) -> Result<LogPage, GitError> {
    // Paths come one in a line: git has no other way to read them.
    if path.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(GitError::TimedOut { what: "the log" });
    }
    let find = async {
        let _turn = app.gates.log.enter(id, client).await?;
        let child = app.git.rev_list(&app.store.path(id), skipped(page), page.size.saturating_add(1))?;
        let input = [tip.to_string().as_bytes(), b"\n--\n", path.as_bytes(), b"\n"].concat();
        let output = child.finish(&input, GIT_TIME).await?;
        let ids = String::from_utf8_lossy(&output);
        Ok(ids.lines().map(Oid::from_str).collect::<Result<Vec<_>, _>>()?)
    };
    let ids = app.path_logs.get(PathLogKey::new(id, tip, path, page), find).await?;
    app.pool.run(id, move |repo| page_of(repo, &ids, page)).await
}
