//! The RPCs of last commits (`HistoryService`).

use std::{collections::BTreeSet, sync::Arc};

use ferrite_listener::service;
use ferrite_proto::{
    git::{
        self, GetBlameRequest, GetBlameResponse, GetTreeCommitsRequest, GetTreeCommitsResponse,
        history_service_server::HistoryService,
    },
    id::RepositoryId,
};
use git_store::{
    repo::{
        read::{
            CommitSummary, Deadline,
            blame::{Blame, BlameRange, BlamedFile, blamed_commits, blamed_file, read_blame},
            commit_paths::CommitPath,
            log::start,
            tree_commits::{EntryCommit, MAX_VISITED_COMMITS, TreeCommits, WALK_TIMEOUT, tree_commits},
        },
        revision::Revision,
    },
    types::{error::GitError, path::TreePath},
};
use git2::Repository;
use tonic::Request;

use super::{diffs::limited, encode};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState};

service!(HistoryService for AppState {
    get_tree_commits(GetTreeCommitsRequest) -> GetTreeCommitsResponse;
    get_blame(GetBlameRequest) -> GetBlameResponse;
});

/// Returns the entries of a folder with their last commits. An invalid path yields `PathNotFound`,
/// like a missing one.
async fn get_tree_commits(
    state: &AppState,
    request: Request<GetTreeCommitsRequest>,
) -> Result<GetTreeCommitsResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let folder = TreePath::clean(&request.folder).map_err(|_| GitError::PathNotFound)?;
    let tip = state.pool.run(id, move |repo| start(repo, &revision)).await?;
    Ok(match tip {
        Some(commit) => {
            let key = CommitPath { repository: id, commit, path: folder };
            encode_tree_commits(&*last_commits(state, &client, key).await?)
        }
        None if folder.is_root() => encode_tree_commits(&TreeCommits::empty()),
        None => return Err(GitError::PathNotFound.into()),
    })
}

pub(super) async fn last_commits(
    state: &AppState,
    client: &ClientKey,
    key: CommitPath,
) -> Result<Arc<TreeCommits>, GitError> {
    let cache = &state.caches.tree_commits;
    if let Some(found) = cache.find(&key) {
        return Ok(found);
    }
    let _permit = state.limiters.log.acquire(key.repository, client).await?;
    // Others may have waited for the same folder.
    if let Some(found) = cache.find(&key) {
        return Ok(found);
    }
    let (commit, folder) = (key.commit, key.path.clone());
    let (deadline, _waiting) = Deadline::start(WALK_TIMEOUT);
    let job = move |repo: &Repository| tree_commits(repo, commit, &folder, MAX_VISITED_COMMITS, &deadline);
    let found = Arc::new(state.pool.run(key.repository, job).await?);
    cache.keep(key, &found);
    Ok(found)
}

fn encode_tree_commits(found: &TreeCommits) -> GetTreeCommitsResponse {
    let entry = |entry: &EntryCommit| git::EntryCommit {
        kind: encode::entry_kind(entry.kind).into(),
        name: entry.name.clone(),
        mode: u32::try_from(entry.mode).unwrap_or(0),
        id: entry.id.to_string(),
        size_bytes: entry.size.map(|size| i64::try_from(size).unwrap_or(i64::MAX)),
        last_commit_id: entry.last_commit.map(|id| id.to_string()).unwrap_or_default(),
    };
    GetTreeCommitsResponse {
        commit: found.commit.clone().map(encode_summary),
        entries: found.entries.iter().map(entry).collect(),
        commits: found.commits.iter().cloned().map(encode_summary).collect(),
        is_complete: found.is_complete,
        is_truncated: found.is_truncated,
    }
}

/// Returns the lines of a file with their last commits. An invalid path yields `PathNotFound`, like
/// a missing one.
async fn get_blame(state: &AppState, request: Request<GetBlameRequest>) -> Result<GetBlameResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.file).map_err(|_| GitError::PathNotFound)?;
    let own = path.clone();
    let file = state.pool.run(id, move |repo| blamed_file(repo, &revision, &own)).await?;
    let key = CommitPath { repository: id, commit: file.commit, path: path.clone() };
    let blame = blame_of(state, &client, file, key).await?;
    Ok(GetBlameResponse {
        commit_id: file.commit.to_string(),
        path: path.as_bytes().to_vec(),
        line_count: file.lines,
        ranges: blame.ranges.iter().cloned().map(encode_range).collect(),
        commits: blame.commits.iter().cloned().map(encode_summary).collect(),
    })
}

async fn blame_of(
    state: &AppState,
    client: &ClientKey,
    file: BlamedFile,
    key: CommitPath,
) -> Result<Arc<Blame>, GitError> {
    let cache = &state.caches.blames;
    if let Some(found) = cache.find(&key) {
        return Ok(found);
    }
    let _permit = state.limiters.diff.acquire(key.repository, client).await?;
    // Others may have waited for the same file.
    if let Some(found) = cache.find(&key) {
        return Ok(found);
    }
    let ranges = read_blame(&state.git, &state.store.path(key.repository), file, &key.path).await?;
    let commits = commits_of(state, key.repository, &ranges).await?;
    let found = Arc::new(Blame { ranges, commits });
    cache.keep(key, &found);
    Ok(found)
}

async fn commits_of(state: &AppState, id: RepositoryId, ranges: &[BlameRange]) -> Result<Vec<CommitSummary>, GitError> {
    let ids: BTreeSet<_> = ranges.iter().map(|range| range.commit).collect();
    state.pool.run(id, move |repo| blamed_commits(repo, &ids)).await
}

fn encode_range(range: BlameRange) -> git::BlameRange {
    let (previous_id, previous_path) = match range.previous {
        Some(previous) => (previous.commit.to_string(), previous.path),
        None => Default::default(),
    };
    git::BlameRange {
        start: range.start,
        line_count: range.lines,
        commit_id: range.commit.to_string(),
        original_path: range.original_path,
        original_start: range.original_start,
        previous_id,
        previous_path,
    }
}

fn encode_summary(commit: CommitSummary) -> git::CommitSummary {
    git::CommitSummary {
        id: commit.id.to_string(),
        subject: commit.subject.into_bytes(),
        author: Some(encode::signature(commit.author)),
        commit_time: Some(prost_types::Timestamp { seconds: commit.commit_seconds, nanos: 0 }),
    }
}
