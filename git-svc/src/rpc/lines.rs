//! The RPCs of lines that comments are on (`LineService`).

use std::sync::Arc;

use ferrite_listener::service;
use ferrite_proto::{
    git::{
        DiffLines, FindLinesRequest, FindLinesResponse, FollowLinesRequest, FollowLinesResponse, FollowedLines,
        FoundLines, line_service_server::LineService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::read::{
        Deadline,
        deadline::READ_TIMEOUT,
        diff::{BlobPair, ChangeLimits, ChangedLines, Comparer, DiffPair, read_changes},
        lines::{FileLines, FindPlan, Found, LinesToFind, LinesToFollow, Renames, find_lines as find_in, follow},
        pushed::added_among,
    },
    types::{error::GitError, path::TreePath},
};
use git2::{Oid, Repository};
use tonic::Request;

use super::{decode, diffs::limited, heads::require_own};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState};

/// Lines in one FollowLines.
const MAX_FOLLOWED: usize = 1000;
/// Lines in one FindLines.
const MAX_FOUND: usize = 100;

service!(LineService for AppState {
    follow_lines(FollowLinesRequest) -> FollowLinesResponse;
    find_lines(FindLinesRequest) -> FindLinesResponse;
});

async fn follow_lines(state: &AppState, request: Request<FollowLinesRequest>) -> Result<FollowLinesResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    if request.lines.len() > MAX_FOLLOWED {
        return Err(GitError::invalid("lines", "too_long", "must not be more than 1,000").into());
    }
    let head = decode::object_id("head_id", &request.head_id)?;
    let merge_base = decode::object_id("merge_base_id", &request.merge_base_id)?;
    let parse = |(index, followed): (usize, &FollowedLines)| -> Result<_, GitError> {
        let field = |name: &str| format!("lines[{index}].{name}");
        Ok(LinesToFollow {
            lines: lines_of(&field, &followed.path, followed.line, followed.line_count)?,
            from: decode::object_id(&field("commit_id"), &followed.commit_id)?,
            to: if followed.is_old_side { merge_base } else { head },
        })
    };
    let lines = request.lines.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let plan = state.pool.run(id, move |repo| follow(repo, &lines, &deadline)).await?;
    let changes = changed_lines(state, id, &client, &plan.pairs).await?;
    let last = |line: Option<u32>| line.and_then(|line| i32::try_from(line).ok()).unwrap_or_default();
    Ok(FollowLinesResponse { lines: plan.last_lines(&changes).into_iter().map(last).collect() })
}

/// Returns the lines that differ, by pair. The ids of two files decide that, so it is kept.
async fn changed_lines(
    state: &AppState,
    id: RepositoryId,
    client: &ClientKey,
    pairs: &[BlobPair],
) -> Result<Vec<Arc<[ChangedLines]>>, GitError> {
    let cache = &state.merges.lines;
    let mut found: Vec<_> = pairs.iter().map(|pair| (*pair, cache.get(&(id, *pair)))).collect();
    let missing: Vec<_> = found.iter().filter(|(_, known)| known.is_none()).map(|(pair, _)| *pair).collect();
    if !missing.is_empty() {
        let _permit = state.limiters.diff.acquire(id, client).await?;
        let mut compared = Comparer::new(&state.git, &state.pool, id).changed_lines(&missing).await?.into_iter();
        for (pair, known) in found.iter_mut().filter(|(_, known)| known.is_none()) {
            let lines: Arc<[ChangedLines]> = compared.next().unwrap_or_default().into();
            cache.insert((id, *pair), Arc::clone(&lines));
            *known = Some(lines);
        }
    }
    Ok(found.into_iter().filter_map(|(_, lines)| lines).collect())
}

async fn find_lines(state: &AppState, request: Request<FindLinesRequest>) -> Result<FindLinesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    if request.lines.len() > MAX_FOUND {
        return Err(GitError::invalid("lines", "too_long", "must not be more than 100").into());
    }
    let head = decode::object_id("head_id", &request.head_id)?;
    let merge_base = decode::object_id("merge_base_id", &request.merge_base_id)?;
    let commit = match request.commit_id.as_str() {
        "" => None,
        id => Some(decode::object_id("commit_id", id)?),
    };
    let parse = |(index, lines): (usize, &DiffLines)| -> Result<_, GitError> {
        let field = |name: &str| format!("lines[{index}].{name}");
        let found = lines_of(&field, &lines.path, lines.line, lines.line_count)?;
        Ok(LinesToFind { lines: found, is_old: lines.is_old_side })
    };
    let lines = request.lines.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?;
    let (id, client) = (RepositoryId(request.repository_id), ClientKey::User(request.user_id));
    require_own(state, id).await?;
    let (commits, lines) = ((merge_base, commit.unwrap_or(head)), Arc::new(lines));
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let first = Arc::clone(&lines);
    let job = move |repo: &Repository| {
        if commits.1 != head {
            check_ahead(repo, (merge_base, head), commits.1, &deadline)?;
        }
        find_in(repo, commits, &first, &Renames::default(), &deadline)
    };
    let mut plan = state.pool.run(id, job).await?;
    if plan.has_lone_files {
        let renames = renames(state, id, &client, commits).await?;
        if !renames.is_empty() {
            let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
            let job = move |repo: &Repository| find_in(repo, commits, &lines, &renames, &deadline);
            plan = state.pool.run(id, job).await?;
        }
    }
    let FindPlan { found, shown, pairs, .. } = plan;
    let wanted: Vec<_> = shown.iter().flatten().copied().collect();
    let mut hunks = if wanted.is_empty() {
        Vec::new().into_iter()
    } else {
        let _permit = state.limiters.diff.acquire(id, &client).await?;
        Comparer::new(&state.git, &state.pool, id).hunks_up_to(&pairs, &wanted).await?.into_iter()
    };
    let lines = found.into_iter().zip(shown).map(|(found, shown)| {
        let diff_hunk = shown.and_then(|_| hunks.next()).unwrap_or_default();
        FoundLines { exists: found == Found::Lines, diff_hunk, is_file_missing: found == Found::Nothing }
    });
    Ok(FindLinesResponse { lines: lines.collect() })
}

/// Returns the files that the diff of two commits shows as renamed, as far as there is time to find
/// them.
async fn renames(
    state: &AppState,
    id: RepositoryId,
    client: &ClientKey,
    (old, new): (Oid, Oid),
) -> Result<Renames, GitError> {
    let _permit = state.limiters.diff.acquire(id, client).await?;
    let limits = ChangeLimits { with_lines: false, ..ChangeLimits::single() };
    let pair = DiffPair { old: Some(old), new };
    let found = read_changes(&state.git, &state.store.path(id), &[pair], limits).await?;
    let changes = found.changes.into_iter().next().flatten().unwrap_or_default();
    Ok(Renames::of(&changes.files))
}

/// Checks that a commit is one of those that the head has and the merge base has not.
fn check_ahead(
    repo: &Repository,
    (merge_base, head): (Oid, Oid),
    commit: Oid,
    deadline: &Deadline,
) -> Result<(), GitError> {
    let added = added_among(repo, Some(merge_base), head, &[commit].into(), deadline)?;
    if added.found.contains(&commit) { Ok(()) } else { Err(GitError::CommitNotFound) }
}

/// Checks lines of a file, of which `line` is the last one, counted from 1.
fn lines_of(field: &dyn Fn(&str) -> String, path: &str, line: i32, count: i32) -> Result<FileLines, GitError> {
    let path = TreePath::literal(path.as_bytes()).map_err(|error| error.of(&field("path")))?;
    let invalid = |name, message: &str| GitError::invalid(&field(name), "invalid", message);
    let end = u32::try_from(line).ok().filter(|line| *line >= 1);
    let end = end.ok_or_else(|| invalid("line", "must be at least 1"))?;
    let count = u32::try_from(count).ok().filter(|count| (1..=end).contains(count));
    let count = count.ok_or_else(|| invalid("line_count", "must be between 1 and `line`"))?;
    Ok(FileLines { path, lines: end - count..end })
}
