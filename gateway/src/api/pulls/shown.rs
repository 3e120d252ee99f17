//! What responses show of pull requests: their accounts and repositories, and what git knows about
//! those that are open.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ferrite_api_types::convert::require;
use ferrite_api_types::{PullRequest, Repository};
use ferrite_proto::git::{DescribePullsRequest, PullDescription, PullEnds};
use ferrite_proto::issue::{self, Issue, IssueState};
use ferrite_proto::operation;
use ferrite_proto::repo::{GetRepositoriesRequest, RepositoryRef};
use ferrite_rpc::grpc::with_timeout;

use crate::api::access::ResolvedAccess;
use crate::api::call::ApiCall;
use crate::api::git::response::read_error;
use crate::http::error::ApiResult;
use crate::http::path::RepoPath;

/// Deadline of a description: git-svc waits for a permit, and then tries the merges.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(60);

/// The caller's access to pull requests, and to what git knows about them.
pub(super) struct Reader {
    pub(super) pulls: ResolvedAccess,
    git: ResolvedAccess,
}

impl Reader {
    /// `operation` is that of issue-svc.
    pub(super) async fn of(call: &ApiCall, path: &RepoPath, operation: &str) -> ApiResult<Self> {
        // Of two refusals, that of the pull request counts.
        let (pulls, git) = tokio::join!(call.access(path, operation), call.access(path, operation::DESCRIBE_PULLS));
        Ok(Self { pulls: pulls?, git: git? })
    }

    /// After a write: repo-svc checks again whether the caller may read.
    pub(super) async fn after(call: &ApiCall, pulls: ResolvedAccess) -> ApiResult<Self> {
        let git = call.resolve(RepositoryRef::by_id(pulls.id), operation::DESCRIBE_PULLS).await?;
        Ok(Self { pulls, git })
    }

    /// Converts a pull request, with the size of its changes.
    pub(super) async fn one(&self, call: &ApiCall, pull: Option<Issue>) -> ApiResult<PullRequest> {
        let shown = self.joined(call, vec![require(pull, "pull")?], true).await?;
        Ok(require(shown.into_iter().next(), "pull")?)
    }

    pub(super) async fn all(&self, call: &ApiCall, pulls: Vec<Issue>) -> ApiResult<Vec<PullRequest>> {
        self.joined(call, pulls, false).await
    }

    /// Converts pull requests of one repository, with one call for each thing that they are joined
    /// with.
    async fn joined(&self, call: &ApiCall, pulls: Vec<Issue>, with_stats: bool) -> ApiResult<Vec<PullRequest>> {
        let base = call.repository(Some(self.pulls.repository.clone()))?;
        let ids = pulls.iter().flat_map(PullRequest::account_ids);
        let (accounts, heads, described) = tokio::try_join!(
            call.accounts_beside_caller(&self.pulls, ids),
            self.heads(call, &pulls),
            self.described(call, &pulls, with_stats)
        )?;
        let mut described = described.into_iter();
        let mut shown = Vec::with_capacity(pulls.len());
        for pull in pulls {
            let ends = require(pull.pull_request.as_ref(), "pull_request")?;
            let known = if is_open(&pull) { Some(require(described.next(), "pulls")?) } else { None };
            let git = known.filter(|known| !known.base_id.is_empty()).unwrap_or_else(|| stored(ends));
            let head = match ends.head_repository_id {
                id if id == self.pulls.id => Some(base.clone()),
                id => heads.get(&id).cloned(),
            };
            shown.push(PullRequest::new(pull, Some(git), base.clone(), head, &accounts, &self.pulls.urls)?);
        }
        Ok(shown)
    }

    /// Returns the other repositories of heads that the caller may read, by their ids.
    async fn heads(&self, call: &ApiCall, pulls: &[Issue]) -> ApiResult<HashMap<i64, Repository>> {
        let ids = pulls.iter().filter_map(|pull| pull.pull_request.as_ref()).map(|ends| ends.head_repository_id);
        let ids: BTreeSet<_> = ids.filter(|id| *id != 0 && *id != self.pulls.id).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let request = call.request(GetRepositoriesRequest { repository_ids: ids.into_iter().collect() });
        let found = call.clients.repositories().get_repositories(request).await?.into_inner().repositories;
        let ids: Vec<_> = found.iter().map(|repository| repository.id).collect();
        Ok(ids.into_iter().zip(call.repositories(found)?).collect())
    }

    /// Returns what git knows about those that are open, in their order.
    async fn described(&self, call: &ApiCall, pulls: &[Issue], with_stats: bool) -> ApiResult<Vec<PullDescription>> {
        let ends = pulls.iter().filter(|pull| is_open(pull)).filter_map(|pull| pull.pull_request.as_ref());
        let ends = ends.map(|ends| PullEnds { base_branch: ends.base_branch.clone(), head_id: ends.head_id.clone() });
        let pulls: Vec<_> = ends.collect();
        if pulls.is_empty() {
            return Ok(Vec::new());
        }
        let request = DescribePullsRequest { repository_id: self.git.id, pulls, with_stats };
        let request = with_timeout(call.request_with_grant(&self.git.grant, request), DESCRIBE_TIMEOUT);
        Ok(call.clients.merges().describe_pulls(request).await.map_err(read_error)?.into_inner().pulls)
    }
}

fn is_open(pull: &Issue) -> bool {
    pull.state() == IssueState::Open
}

/// Returns what issue-svc knows: of one that is not open, or whose base branch is gone.
fn stored(ends: &issue::PullRequest) -> PullDescription {
    let base = || ends.merge_base_id.clone();
    PullDescription { base_id: base(), merge_base_id: base(), ..PullDescription::default() }
}
