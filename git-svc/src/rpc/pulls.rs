//! DescribePulls, GetConflicts and GetMergeRequirements: what git knows about open pull requests.
//! Nothing is computed before it is asked for, and nothing twice.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ferrite_proto::{
    git::{
        self, DescribePullsRequest, DescribePullsResponse, GetConflictsRequest, GetConflictsResponse,
        GetMergeRequirementsRequest, GetMergeRequirementsResponse, MergeObstacle, MergeRequirement,
        MergeRequirementKind, MergeReviews, PullDescription, PullStats,
    },
    id::RepositoryId,
};
use ferrite_rpc::{auth::Caller, service_key::MAX_REVIEWERS};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use git_store::{
    git::command::diff::Whitespace,
    repo::{
        merge::{ConflictFile, ConflictRange, LineRange, Mergeability, Merger},
        read::diff::DiffPair,
        refs::Page,
    },
    types::{
        error::GitError, merge_requirements::Requirement, name::BranchName, protection::Actor,
        required_reviews::Reviews,
    },
};
use git2::Oid;
use tonic::Request;

use crate::{
    admission::limiter::ClientKey,
    rpc::{
        decode,
        diffs::{changes_of, limited, parted},
        encode,
    },
    rpc_error::RpcError,
    state::AppState,
};

/// Pull requests in one call.
const MAX_PULLS: usize = 100;
/// Pull requests of one call that are computed at a time.
const CONCURRENT: usize = 2;
/// Time limit of one call.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A repository, and the client for whom it is read.
struct Reading<'a> {
    state: &'a AppState,
    id: RepositoryId,
    client: ClientKey,
}

pub(super) async fn describe_pulls(
    state: &AppState,
    request: Request<DescribePullsRequest>,
) -> Result<DescribePullsResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    if request.pulls.len() > MAX_PULLS {
        return Err(GitError::invalid("pulls", "too_long", "must not be more than 100").into());
    }
    let mut ends = Vec::with_capacity(request.pulls.len());
    for (index, pull) in request.pulls.into_iter().enumerate() {
        let head = decode::object_id(&format!("pulls[{index}].head_id"), &pull.head_id)?;
        ends.push((BranchName::parse(pull.base_branch.as_bytes()).ok(), head));
    }
    let reading = Reading { state, id, client };
    let tips = reading.tips(ends.iter().filter_map(|(base, _)| base.clone())).await?;
    let ends = ends.into_iter().map(|(base, head)| (base.and_then(|base| tips.get(base.as_bytes()).copied()), head));
    let described = stream::iter(ends)
        .map(|(tip, head)| reading.describe(tip, head, request.with_stats))
        .buffered(CONCURRENT)
        .try_collect();
    let pulls = tokio::time::timeout(TIMEOUT, described).await;
    Ok(DescribePullsResponse { pulls: pulls.map_err(|_| GitError::TimedOut { what: "the check of merges" })?? })
}

pub(super) async fn get_conflicts(
    state: &AppState,
    request: Request<GetConflictsRequest>,
) -> Result<GetConflictsResponse, RpcError> {
    let (client, request, id) = limited(state, request, |request| request.repository_id).await?;
    let pull = request.pull.unwrap_or_default();
    let head = decode::object_id("head_id", &pull.head_id)?;
    let base = BranchName::parse(pull.base_branch.as_bytes()).map_err(|_| GitError::BranchNotFound)?;
    let tip = state.refs.resolve(id, base.to_ref()).await?.ok_or(GitError::BranchNotFound)?;
    let found = Reading { state, id, client }.check(tip, head).await?;
    let base_id = tip.to_string();
    Ok(match &*found {
        Mergeability::Clean => GetConflictsResponse { base_id, ..GetConflictsResponse::default() },
        Mergeability::Conflicts(conflicts) => GetConflictsResponse {
            files: conflicts.files.iter().map(conflict_file).collect(),
            total_count: encode::total_count(conflicts.total),
            base_id,
        },
    })
}

pub(super) async fn get_merge_requirements(
    state: &AppState,
    request: Request<GetMergeRequirementsRequest>,
) -> Result<GetMergeRequirementsResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorize(&caller, id).await?;
    let client = ClientKey::of(&caller, &grant, request.metadata().as_ref());
    let request = request.into_inner();
    let pull = request.pull.unwrap_or_default();
    let head = decode::object_id("head_id", &pull.head_id)?;
    let reviews = reviews(request.reviews.unwrap_or_default())?;
    let base = BranchName::parse(pull.base_branch.as_bytes()).ok();
    let tip = match &base {
        Some(base) => state.refs.resolve(id, base.to_ref()).await?,
        None => None,
    };
    let (Some(base), Some(tip)) = (base, tip) else {
        let obstacle = MergeObstacle::NoBase.into();
        return Ok(GetMergeRequirementsResponse { obstacle, ..GetMergeRequirementsResponse::default() });
    };
    let actor = Actor::of(&grant);
    let requirements = state.protection.merge_requirements(id, &actor, &base, (tip, head), &reviews).await?;
    let reading = Reading { state, id, client };
    let found = tokio::time::timeout(TIMEOUT, reading.obstacle(tip, head)).await;
    let (merge_base, obstacle) = found.map_err(|_| GitError::TimedOut { what: "the check of a merge" })??;
    Ok(GetMergeRequirementsResponse {
        requirements: requirements.iter().map(encode_requirement).collect(),
        obstacle: obstacle.into(),
        is_behind: merge_base.is_some_and(|merge_base| merge_base != tip) || obstacle == MergeObstacle::NoCommonHistory,
    })
}

fn reviews(found: MergeReviews) -> Result<Reviews, GitError> {
    let MergeReviews { approver_ids, stale_approver_ids, rejecter_ids, has_requests } = found;
    if [&approver_ids, &stale_approver_ids, &rejecter_ids].iter().any(|ids| ids.len() > MAX_REVIEWERS) {
        return Err(GitError::invalid("reviews", "too_long", "must not have more than 200 users of a kind"));
    }
    let has_rejections = !rejecter_ids.is_empty();
    Ok(Reviews { approvals: approver_ids, stale_approvals: stale_approver_ids, has_rejections, has_requests })
}

fn encode_requirement(requirement: &Requirement) -> MergeRequirement {
    let is_met = requirement.is_met();
    let of = |kind: MergeRequirementKind| MergeRequirement { kind: kind.into(), is_met, ..MergeRequirement::default() };
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    match requirement {
        Requirement::Merger { .. } => of(MergeRequirementKind::Merger),
        Requirement::CurrentHead { .. } => of(MergeRequirementKind::CurrentHead),
        Requirement::Check { context, is_reported, .. } => {
            let (context, is_reported) = (context.clone(), *is_reported);
            MergeRequirement { context, is_reported, ..of(MergeRequirementKind::Check) }
        }
        Requirement::Approvals { count, required } => {
            let (approval_count, required_approvals) = (number(*count), number(*required));
            MergeRequirement { approval_count, required_approvals, ..of(MergeRequirementKind::Approvals) }
        }
        Requirement::NoRejection { .. } => of(MergeRequirementKind::NoRejection),
        Requirement::NoRequest { .. } => of(MergeRequirementKind::NoRequest),
    }
}

impl Reading<'_> {
    /// Returns the commits of branches that exist.
    async fn tips(&self, branches: impl Iterator<Item = BranchName>) -> Result<HashMap<Vec<u8>, Oid>, GitError> {
        let mut branches: Vec<_> = branches.collect();
        branches.sort_unstable();
        branches.dedup();
        let names = branches.iter().map(BranchName::to_ref).collect();
        let tips = self.state.refs.resolve_all(self.id, names).await?;
        let found = branches.into_iter().zip(tips);
        Ok(found.filter_map(|(branch, tip)| Some((branch.as_bytes().to_vec(), tip?))).collect())
    }

    async fn describe(&self, tip: Option<Oid>, head: Oid, with_stats: bool) -> Result<PullDescription, RpcError> {
        let Some(tip) = tip else { return Ok(PullDescription::default()) };
        let base_id = tip.to_string();
        let (merge_base, obstacle) = self.obstacle(tip, head).await?;
        let Some(merge_base) = merge_base else {
            let is_behind = obstacle == MergeObstacle::NoCommonHistory;
            return Ok(PullDescription { base_id, is_behind, ..PullDescription::default() });
        };
        let is_mergeable = obstacle == MergeObstacle::Unspecified;
        let stats = if with_stats { Some(self.stats(merge_base, head).await?) } else { None };
        let is_behind = merge_base != tip;
        Ok(PullDescription { base_id, merge_base_id: merge_base.to_string(), is_mergeable, is_behind, stats })
    }

    /// Returns the merge base of a base and a head, and why they cannot be merged.
    async fn obstacle(&self, tip: Oid, head: Oid) -> Result<(Option<Oid>, MergeObstacle), GitError> {
        let merge_base = match self.merge_base(tip, head).await {
            Ok(Some(merge_base)) => merge_base,
            Ok(None) => return Ok((None, MergeObstacle::NoCommonHistory)),
            Err(error) if is_missing(&error) => return Ok((None, MergeObstacle::NoCommit)),
            Err(error) => return Err(error),
        };
        // A base that has no commits of its own takes every head.
        let obstacle = match merge_base {
            found if found == head => MergeObstacle::NothingToMerge,
            found if found == tip => MergeObstacle::Unspecified,
            _ => match self.check(tip, head).await {
                Ok(found) if *found == Mergeability::Clean => MergeObstacle::Unspecified,
                Ok(_) => MergeObstacle::Conflict,
                Err(GitError::TooLarge { .. } | GitError::Invalid(_)) => MergeObstacle::Rejected,
                Err(error) => return Err(error),
            },
        };
        Ok((Some(merge_base), obstacle))
    }

    async fn merge_base(&self, tip: Oid, head: Oid) -> Result<Option<Oid>, GitError> {
        let (cache, key) = (&self.state.merges.bases, (self.id, tip, head));
        if let Some(found) = cache.get(&key) {
            return Ok(found);
        }
        let page = Page { number: 1, size: 1 };
        let found = parted(self.state, &self.client, self.id, (tip, head), page).await?.merge_base;
        cache.insert(key, found);
        Ok(found)
    }

    async fn check(&self, tip: Oid, head: Oid) -> Result<Arc<Mergeability>, GitError> {
        let state = self.state;
        let check = async {
            let _permit = state.limiters.merge.acquire(self.id, &self.client).await?;
            Merger::new(&state.git, &state.pool, self.id).check(tip, head).await
        };
        state.merges.checks.get(self.id, tip, head, check).await
    }

    async fn stats(&self, merge_base: Oid, head: Oid) -> Result<PullStats, RpcError> {
        let (cache, key) = (&self.state.merges.stats, (self.id, merge_base, head));
        if let Some(found) = cache.get(&key) {
            return Ok(found);
        }
        let _permit = self.state.limiters.merge.acquire(self.id, &self.client).await?;
        let pair = DiffPair { old: Some(merge_base), new: head };
        let changes = changes_of(self.state, self.id, pair, Whitespace::ShowAll).await?;
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let stats = PullStats {
            additions: number(changes.additions),
            deletions: number(changes.deletions),
            changed_files: encode::total_count(changes.file_count),
        };
        cache.insert(key, stats);
        Ok(stats)
    }
}

fn is_missing(error: &GitError) -> bool {
    matches!(error, GitError::CommitNotFound) || error.is_missing_object()
}

fn conflict_file(file: &ConflictFile) -> git::ConflictFile {
    let ranges = file.ranges.iter().map(conflict_range).collect();
    git::ConflictFile { path: file.path.clone(), kind: file.kind.name().to_owned(), ranges }
}

fn conflict_range(range: &ConflictRange) -> git::ConflictRange {
    let ConflictRange { base, ours, theirs } = *range;
    let [base, ours, theirs] =
        [base, ours, theirs].map(|LineRange { line, count }| Some(git::LineRange { start: line, line_count: count }));
    git::ConflictRange { base, ours, theirs }
}
