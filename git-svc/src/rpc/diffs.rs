//! The RPCs of diffs (`DiffService`), and the changes of listed commits.

use ferrite_listener::service;
use ferrite_proto::{
    git::{
        self, Commit, CompareRequest, CompareResponse, GetDiffRequest, GetDiffResponse,
        diff_service_server::DiffService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    git::command::diff::Whitespace,
    repo::{
        read::{
            CommitInfo, Deadline,
            deadline::READ_TIMEOUT,
            diff::{
                Ahead, ChangeLimits, Changes, DiffPair, FilePatch, Hunk, HunkLine, LineKind, MAX_AHEAD_STEPS, ahead,
                ahead_by_git, read_changes, read_diff,
            },
            log::page_of,
        },
        refs::Page,
        revision::Revision,
    },
    types::error::GitError,
};
use git2::{Oid, Repository};
use tonic::Request;

use super::{decode, encode};
use crate::{
    admission::limiter::{ClientKey, Permit},
    rpc_error::RpcError,
    state::AppState,
};

service!(DiffService for AppState {
    compare(CompareRequest) -> CompareResponse;
    get_diff(GetDiffRequest) -> GetDiffResponse;
});

/// The parts of a commit's changes that a request asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) stats: bool,
    pub(super) files: bool,
}

impl Wanted {
    pub(super) fn is_any(self) -> bool {
        self.stats || self.files
    }
}

async fn compare(state: &AppState, request: Request<CompareRequest>) -> Result<CompareResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let (base, head) = (Revision::parse(&request.base)?, Revision::parse(&request.head)?);
    let job = move |repo: &Repository| Ok((base.resolve(repo)?.commit, head.resolve(repo)?.commit));
    let (base, head) = state.pool.run(id, job).await?;
    let Ahead { merge_base, total, commits } = parted(state, &client, id, (base, head), page).await?;
    let old = if request.is_direct { base } else { merge_base.ok_or(GitError::NoCommonHistory)? };
    let listed = state.pool.run(id, move |repo| page_of(repo, &commits, page)).await?;
    let wanted = Wanted { stats: request.with_stats, files: request.with_files };
    let pair = DiffPair { old: Some(old), new: head };
    let _permit = state.limiters.diff.acquire(id, &client).await?;
    let (changes, commits) = tokio::try_join!(
        changes_of(state, id, pair, request.whitespace().into()),
        with_changes(state, id, listed.commits, wanted)
    )?;
    Ok(CompareResponse {
        base_id: base.to_string(),
        head_id: head.to_string(),
        merge_base_id: merge_base.map(|id| id.to_string()).unwrap_or_default(),
        commits,
        has_more: listed.has_more,
        total_count: encode::total_count(total),
        changes: Some(encode::changes(changes)),
    })
}

async fn get_diff(state: &AppState, request: Request<GetDiffRequest>) -> Result<GetDiffResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    let head = Revision::parse(&request.head)?;
    let pair = if request.base.is_empty() {
        state.pool.run(id, move |repo| DiffPair::of_commit(repo, head.resolve(repo)?.commit)).await?
    } else {
        let base = Revision::parse(&request.base)?;
        let job = move |repo: &Repository| Ok((base.resolve(repo)?.commit, head.resolve(repo)?.commit));
        let (base, head) = state.pool.run(id, job).await?;
        let old = match request.is_direct {
            true => Some(base),
            false => parted(state, &client, id, (base, head), Page { number: 1, size: 1 }).await?.merge_base,
        };
        DiffPair { old: Some(old.ok_or(GitError::NoCommonHistory)?), new: head }
    };
    let _permit = state.limiters.diff.acquire(id, &client).await?;
    let diff = read_diff(&state.git, &state.store.path(id), pair, request.whitespace().into()).await?;
    Ok(GetDiffResponse {
        old_id: pair.old.map(|id| id.to_string()).unwrap_or_default(),
        new_id: pair.new.to_string(),
        changes: Some(encode::changes(diff.changes)),
        patches: diff.patches.into_iter().map(encode_patch).collect(),
    })
}

/// Authorizes a call. Also returns the client, whose processes are limited.
pub(super) async fn limited<T>(
    state: &AppState,
    request: Request<T>,
    repository: fn(&T) -> i64,
) -> Result<(ClientKey, T, RepositoryId), RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(repository(request.get_ref()));
    let grant = state.authorize(&caller, id).await?;
    let client = ClientKey::of(&caller, &grant, request.metadata().as_ref());
    Ok((client, request.into_inner(), id))
}

/// Finds the merge base of two commits, and the commits that only the head has.
pub(super) async fn parted(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    (base, head): (Oid, Oid),
    page: Page,
) -> Result<Ahead, GitError> {
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let job = move |repo: &Repository| ahead(repo, base, head, page, MAX_AHEAD_STEPS, &deadline);
    if let Some(walked) = state.pool.run(id, job).await? {
        return Ok(walked);
    }
    let _permit = state.limiters.log.acquire(id, client).await?;
    ahead_by_git(&state.git, &state.store.path(id), base, head, page).await
}

/// Compares two commits. The caller holds a permit.
pub(super) async fn changes_of(
    state: &AppState,
    id: RepositoryId,
    pair: DiffPair,
    whitespace: Whitespace,
) -> Result<Changes, RpcError> {
    if pair.old == Some(pair.new) {
        return Ok(Changes::default());
    }
    let limits = ChangeLimits { whitespace, ..ChangeLimits::single() };
    let outcome = read_changes(&state.git, &state.store.path(id), &[pair], limits).await?;
    match (outcome.failure, outcome.changes.into_iter().next().flatten()) {
        (Some(failure), _) => Err(failure.into()),
        (None, Some(changes)) => Ok(changes),
        (None, None) => Ok(Changes { is_truncated: true, ..Changes::default() }),
    }
}

/// Waits for a permit if the request asks for changes.
pub(super) async fn permit(
    state: &AppState,
    client: &ClientKey,
    id: RepositoryId,
    wanted: Wanted,
) -> Result<Option<Permit>, GitError> {
    if wanted.is_any() { state.limiters.diff.acquire(id, client).await.map(Some) } else { Ok(None) }
}

/// Adds what each commit changed compared with its first parent. Commits that time did not suffice
/// for, and those after a damaged object, stay without it: the history can still be read. The
/// caller holds a permit.
pub(super) async fn with_changes(
    state: &AppState,
    id: RepositoryId,
    commits: Vec<CommitInfo>,
    wanted: Wanted,
) -> Result<Vec<Commit>, RpcError> {
    if !wanted.is_any() {
        return Ok(commits.into_iter().map(encode::commit).collect());
    }
    // A commit that cannot be read at all has no tree.
    let readable = commits.iter().filter(|commit| !commit.tree.is_zero());
    let pairs: Vec<_> =
        readable.map(|commit| DiffPair { old: commit.parents.first().copied(), new: commit.id }).collect();
    let limits = ChangeLimits { with_lines: wanted.stats, ..ChangeLimits::page() };
    let outcome = read_changes(&state.git, &state.store.path(id), &pairs, limits).await?;
    if let Some(error) = outcome.failure {
        tracing::warn!(repo.id = %id, %error, "cannot compare all commits of a page");
    }
    let mut changes = outcome.changes.into_iter();
    let encode = |commit: CommitInfo| {
        let found = if commit.tree.is_zero() { None } else { changes.next().flatten() };
        Commit { changes: found.map(|found| encode_wanted(found, wanted)), ..encode::commit(commit) }
    };
    Ok(commits.into_iter().map(encode).collect())
}

fn encode_wanted(changes: Changes, wanted: Wanted) -> git::Changes {
    match wanted.files {
        true => encode::changes(changes),
        false => encode::changes(Changes { files: Vec::new(), ..changes }),
    }
}

fn encode_patch(patch: FilePatch) -> git::FilePatch {
    git::FilePatch { hunks: patch.hunks.into_iter().map(encode_hunk).collect(), is_truncated: patch.is_truncated }
}

fn encode_hunk(hunk: Hunk) -> git::Hunk {
    git::Hunk {
        old_start: hunk.old_start,
        old_line_count: hunk.old_lines,
        new_start: hunk.new_start,
        new_line_count: hunk.new_lines,
        section: hunk.section,
        lines: hunk.lines.into_iter().map(encode_line).collect(),
    }
}

fn encode_line(line: HunkLine) -> git::HunkLine {
    let kind = match line.kind {
        LineKind::Context => git::LineKind::Context,
        LineKind::Added => git::LineKind::Added,
        LineKind::Deleted => git::LineKind::Deleted,
    };
    git::HunkLine { kind: kind.into(), text: line.text, is_without_newline: !line.has_newline }
}
