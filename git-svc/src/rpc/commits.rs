use std::time::Duration;

use ferrite_proto::{
    git::{
        self, DescribeUpdatesRequest, DescribeUpdatesResponse, DescribedHead, GetCommitRequest, GetCommitResponse,
        ListCommitsRequest, ListCommitsResponse, ListPushedCommitsRequest, ListPushedCommitsResponse, PushedCommit,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    git::command::GitChild,
    repo::{
        read,
        read::{
            Deadline, DescribedCommit, DescribedRef, DescriptionLimits, DescriptionRequest, Descriptions, LogPage,
            MAX_PUSHED_COMMITS, PathLogKey, Person, UpdateDescription,
            deadline::READ_TIMEOUT,
            describe::{MAX_CHANGED_PATHS, MAX_DESCRIBED_COMMITS, MAX_DESCRIBED_MESSAGE_BYTES, MAX_DESCRIBED_UPDATES},
            log::{MAX_PATH_STEPS, PathLog, page_of, skipped, start},
        },
        refs::Page,
        revision::Revision,
    },
    types::{error::GitError, path::TreePath},
};
use git2::Oid;
use prost_types::Timestamp;
use tonic::Request;

use super::{
    decode,
    diffs::{self, Wanted},
    encode,
};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState};

const LOG_TIMEOUT: Duration = Duration::from_secs(30);
/// Commits of a history over renames. They fit into the output that is kept of a process.
const MAX_FOLLOWED_COMMITS: usize = 20_000;

pub(super) async fn get_commit(
    state: &AppState,
    request: Request<GetCommitRequest>,
) -> Result<GetCommitResponse, RpcError> {
    let (client, request, id) = diffs::limited(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let job = move |repo: &git2::Repository| read::commit(repo, &revision);
    let commit = state.pool.run(id, job).await?;
    let wanted = Wanted { stats: request.with_stats, files: request.with_files };
    let _permit = diffs::permit(state, &client, id, wanted).await?;
    Ok(GetCommitResponse { commit: diffs::with_changes(state, id, vec![commit], wanted).await?.pop() })
}

/// Returns a page of the log of a revision, optionally limited to a path.
pub(super) async fn list_commits(
    state: &AppState,
    request: Request<ListCommitsRequest>,
) -> Result<ListCommitsResponse, RpcError> {
    let (client, request, id) = diffs::limited(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.path).map_err(|error| error.of("path"))?;
    let query = LogQuery { revision, path, page };
    let found = match request.follows_renames && !query.path.is_root() {
        true => history_over_renames(state, &client, id, query).await?,
        false => history(state, &client, id, query, MAX_PATH_STEPS).await?,
    };
    let wanted = Wanted { stats: request.with_stats, files: request.with_files };
    let _permit = diffs::permit(state, &client, id, wanted).await?;
    Ok(ListCommitsResponse {
        commits: diffs::with_changes(state, id, found.commits, wanted).await?,
        has_more: found.has_more,
        total_count: found.total.map(encode::total_count),
    })
}

struct LogQuery {
    revision: Revision,
    path: TreePath,
    page: Page,
}

/// Returns a page of history. Walks with libgit2; switches to git if the walk along a path takes
/// more than `steps` commits.
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

/// Returns a page of the history of a file over renames, which only git finds.
async fn history_over_renames(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    LogQuery { revision, path, page }: LogQuery,
) -> Result<LogPage, GitError> {
    let Some(tip) = state.pool.run(id, move |repo| start(repo, &revision)).await? else {
        return Ok(LogPage { commits: Vec::new(), has_more: false, total: Some(0) });
    };
    let count = skipped(page).saturating_add(page.size.saturating_add(1)).min(MAX_FOLLOWED_COMMITS);
    let find = async {
        let input = log_input(tip, &path)?;
        let _permit = state.limiters.log.acquire(id, client).await?;
        let found = ids_of(state.git.follow_file(&state.store.path(id), count)?, &input).await?;
        Ok(found.into_iter().skip(skipped(page)).collect())
    };
    let key = PathLogKey::new(id, tip, &path, page).over_renames();
    let ids = state.caches.path_logs.get(key, find).await?;
    state.pool.run(id, move |repo| page_of(repo, &ids, page)).await
}

/// Searches with `git rev-list`, which is fast once maintenance has written changed-path filters.
/// Caches the result.
async fn page_by_git(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    tip: Oid,
    path: &TreePath,
    page: Page,
) -> Result<LogPage, GitError> {
    let find = async {
        let input = log_input(tip, path)?;
        let _permit = state.limiters.log.acquire(id, client).await?;
        let child = state.git.rev_list(&state.store.path(id), skipped(page), page.size.saturating_add(1))?;
        ids_of(child, &input).await
    };
    let ids = state.caches.path_logs.get(PathLogKey::new(id, tip, path, page), find).await?;
    state.pool.run(id, move |repo| page_of(repo, &ids, page)).await
}

/// Returns the standard input that names a commit and a path.
fn log_input(tip: Oid, path: &TreePath) -> Result<Vec<u8>, GitError> {
    // git reads one path per line, so a path with a line break cannot be passed.
    if path.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(GitError::TimedOut { what: "the log" });
    }
    Ok([tip.to_string().as_bytes(), b"\n--\n", path.as_bytes(), b"\n"].concat())
}

async fn ids_of(child: GitChild, input: &[u8]) -> Result<Vec<Oid>, GitError> {
    let output = child.finish(input, LOG_TIMEOUT).await.map_err(|error| match error.is_exhausted() {
        true => GitError::TimedOut { what: "the log" },
        false => error,
    })?;
    let ids = String::from_utf8_lossy(&output);
    Ok(ids.lines().map(Oid::from_str).collect::<Result<Vec<_>, _>>()?)
}

/// Returns the newest commits that an update added to a branch, oldest first. Used to act on their
/// messages.
pub(super) async fn list_pushed_commits(
    state: &AppState,
    request: Request<ListPushedCommitsRequest>,
) -> Result<ListPushedCommitsResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let (old, new) = (decode::object_id("old_id", &request.old_id)?, decode::object_id("new_id", &request.new_id)?);
    let limit = decode::parse_limit("limit", request.limit, MAX_PUSHED_COMMITS)?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let job = move |repo: &git2::Repository| read::pushed_commits(repo, old, new, limit, &deadline);
    let commits = state.pool.run(RepositoryId(request.repository_id), job).await?;
    let encode = |commit: read::PushedCommit| PushedCommit { id: commit.id.to_string(), message: commit.message };
    Ok(ListPushedCommitsResponse { commits: commits.into_iter().map(encode).collect() })
}

/// Returns the commits of updates with messages, people and changed paths, and optionally the
/// newest commit of the default branch. Used to report ref updates.
pub(super) async fn describe_updates(
    state: &AppState,
    request: Request<DescribeUpdatesRequest>,
) -> Result<DescribeUpdatesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let id = RepositoryId(request.repository_id);
    let checked = check_description(&request)?;
    let table = state.refs.table(id).await?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let job = move |allows_missing: bool| {
        let (request, table, deadline) =
            (DescriptionRequest { allows_missing, ..checked.clone() }, table.clone(), deadline.clone());
        state.pool.run(id, move |repo| read::describe(repo, &table, &request, &deadline))
    };
    // The pool reopens the repository when an object is missing, so only the second miss counts.
    let described = match job(false).await {
        Err(error) if error.is_missing_object() => job(true).await?,
        described => described?,
    };
    Ok(encode_descriptions(described))
}

fn check_description(request: &DescribeUpdatesRequest) -> Result<DescriptionRequest, GitError> {
    if request.updates.len() > MAX_DESCRIBED_UPDATES {
        return Err(GitError::invalid("updates", "too_long", "must have at most 64 updates"));
    }
    let refs = request.updates.iter().enumerate().map(|(index, update)| {
        Ok(DescribedRef {
            name: update.name.clone(),
            old: decode::object_id(&format!("updates[{index}].old_id"), &update.old_id)?,
            new: decode::object_id(&format!("updates[{index}].new_id"), &update.new_id)?,
        })
    });
    let limits = DescriptionLimits {
        commits: decode::parse_limit("commit_limit", request.commit_limit, MAX_DESCRIBED_COMMITS)?,
        paths: decode::parse_limit("path_limit", request.path_limit, MAX_CHANGED_PATHS)?,
        message_bytes: decode::parse_limit(
            "message_bytes_limit",
            request.message_bytes_limit,
            MAX_DESCRIBED_MESSAGE_BYTES,
        )?,
    };
    let refs = refs.collect::<Result<_, GitError>>()?;
    Ok(DescriptionRequest { refs, with_head: request.with_head, limits, allows_missing: false })
}

fn encode_descriptions(described: Descriptions) -> DescribeUpdatesResponse {
    let update = |update: UpdateDescription| git::UpdateDescription {
        commits: update.commits.into_iter().map(encode_described).collect(),
        total_commits: i64::try_from(update.total).unwrap_or(i64::MAX),
        is_missing: update.is_missing,
        head: update.head.map(encode_described),
    };
    let head = described.head.map(|head| DescribedHead {
        branch: head.branch.as_bytes().to_vec(),
        commit: Some(encode_described(head.commit)),
        parent_id: head.parent.map(|id| id.to_string()).unwrap_or_default(),
    });
    DescribeUpdatesResponse { updates: described.updates.into_iter().map(update).collect(), head }
}

fn encode_described(commit: DescribedCommit) -> git::DescribedCommit {
    git::DescribedCommit {
        id: commit.id.to_string(),
        message: commit.message,
        is_message_cut: commit.is_message_cut,
        author: Some(encode_person(commit.author)),
        committer: Some(encode_person(commit.committer)),
        added: commit.paths.added,
        removed: commit.paths.removed,
        modified: commit.paths.modified,
        are_paths_cut: commit.paths.is_cut,
    }
}

fn encode_person(person: Person) -> git::Person {
    git::Person { name: person.name, email: person.email, time: Some(Timestamp { seconds: person.seconds, nanos: 0 }) }
}
