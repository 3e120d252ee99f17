//! A fake repo-svc and git-svc for pull requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use ferrite_db::Db;
use ferrite_proto::error::{Kind, ServiceError, to_status};
use ferrite_proto::git::{
    DiffLines, FindLinesRequest, FindLinesResponse, FindMergedRequest, FindMergedResponse, FoundLines,
    ListMergesRequest, ListMergesResponse, Merge, SetPullHeadRequest, SetPullHeadResponse, StageHeadRequest,
    StageHeadResponse,
};
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{
    CheckPullSourceRequest, CheckPullSourceResponse, DescribeRepositoriesRequest, DescribeRepositoriesResponse,
    DescribeReviewersRequest, DescribeReviewersResponse, IssueAccess, Permission, PullSettings,
    ReauthorizeAccessRequest, ReauthorizeAccessResponse, Repository, ResolveIssueAccessRequest,
    ResolveIssueAccessResponse, Reviewer, ReviewingTeam, User,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::testing::{FakeAccessService, FakeLineService, FakeMergeService, failure};
use tonic::{Request, Response, Status};

#[derive(Debug, Default)]
pub(crate) struct PullPeerState {
    /// Commits by repository and branch.
    pub(crate) branches: HashMap<(i64, String), String>,
    /// Head repositories that nobody may open pull requests from.
    pub(crate) forbidden: HashSet<i64>,
    pub(crate) set_heads: Vec<SetPullHeadRequest>,
    /// Whether git-svc cannot set heads.
    pub(crate) fails_set_heads: bool,
    /// The heads that a push to a base has merged, and other commits of bases.
    pub(crate) merged_heads: HashSet<String>,
    pub(crate) allows_manual_merges: bool,
    /// Whether tokens have lost their access since their grants.
    pub(crate) lost_access: bool,
    pub(crate) merges: Vec<Merge>,
    /// Whether a new head dismisses approvals.
    pub(crate) dismisses_approvals: bool,
    /// By name. All others do not exist.
    pub(crate) reviewers: HashMap<String, Reviewer>,
    /// By name. All others do not exist.
    pub(crate) teams: HashMap<String, ReviewingTeam>,
    /// What repo-svc was asked about reviewers.
    pub(crate) reviewer_questions: Vec<DescribeReviewersRequest>,
    /// Run while repo-svc is asked about reviewers the next time.
    pub(crate) meanwhile: Option<(Db, String)>,
    /// The commits of pull requests besides their heads.
    pub(crate) commits: HashSet<String>,
    /// The questions about lines.
    pub(crate) line_requests: Vec<FindLinesRequest>,
}

/// The lines of every file.
pub(crate) const FILE_LINES: i32 = 100;
/// A file that no commit has.
pub(crate) const MISSING_FILE: &str = "gone";

#[derive(Clone, Debug, Default)]
pub(crate) struct PullPeer(pub(crate) Arc<Mutex<PullPeerState>>);

#[derive(Debug, thiserror::Error)]
#[error("branch does not exist")]
struct NoBranch(&'static str);

impl ServiceError for NoBranch {
    fn classify(&self) -> (Kind, &'static str) {
        (Kind::NotFound, "BRANCH_NOT_FOUND")
    }

    fn domain(&self) -> &'static str {
        "git"
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        vec![("field", self.0.to_owned())]
    }
}

impl PullPeer {
    /// Sets the commit of a branch, or deletes it.
    pub(crate) fn set_branch(&self, repository: i64, branch: &str, commit_id: Option<&str>) {
        let (mut state, key) = (self.0.lock().unwrap(), (repository, branch.to_owned()));
        match commit_id {
            Some(id) => state.branches.insert(key, id.to_owned()),
            None => state.branches.remove(&key),
        };
    }

    /// Sets what a user may do with pull requests.
    pub(crate) fn set_reviewer(&self, name: &str, user_id: i64, can_write: bool) {
        let reviewer = Reviewer { user_id, can_read: true, can_write, team_ids: Vec::new() };
        self.0.lock().unwrap().reviewers.insert(name.to_owned(), reviewer);
    }

    /// Adds a team that may review.
    pub(crate) fn set_team(&self, name: &str, team_id: i64) {
        let team = ReviewingTeam { team_id, name: name.to_owned(), can_read: true };
        self.0.lock().unwrap().teams.insert(name.to_owned(), team);
    }
}

#[tonic::async_trait]
impl FakeAccessService for PullPeer {
    async fn check_pull_source(
        &self,
        request: Request<CheckPullSourceRequest>,
    ) -> Result<Response<CheckPullSourceResponse>, Status> {
        let is_allowed = !self.0.lock().unwrap().forbidden.contains(&request.into_inner().head_repository_id);
        let store = "default".to_owned();
        Ok(Response::new(CheckPullSourceResponse { is_allowed, store, accepts_pulls: true, left_bytes: None }))
    }

    async fn describe_repositories(
        &self,
        request: Request<DescribeRepositoriesRequest>,
    ) -> Result<Response<DescribeRepositoriesResponse>, Status> {
        let allow_manual_merge = self.0.lock().unwrap().allows_manual_merges;
        // No other style.
        let allow_merge = true;
        let pulls = PullSettings { detects_manual_merges: true, allow_merge, allow_manual_merge, ..Default::default() };
        let pulls = Some(pulls);
        let describe = |id| Repository { id, store: "default".to_owned(), pulls: pulls.clone(), ..Default::default() };
        let repositories = request.into_inner().repository_ids.into_iter().map(describe).collect();
        Ok(Response::new(DescribeRepositoriesResponse { repositories }))
    }

    async fn reauthorize_access(
        &self,
        _: Request<ReauthorizeAccessRequest>,
    ) -> Result<Response<ReauthorizeAccessResponse>, Status> {
        match self.0.lock().unwrap().lost_access {
            true => Err(AuthError::RepositoryNotFound.into()),
            false => Ok(Response::new(ReauthorizeAccessResponse {})),
        }
    }

    /// Those who may review read pull requests, and nobody reads issues.
    async fn resolve_issue_access(
        &self,
        request: Request<ResolveIssueAccessRequest>,
    ) -> Result<Response<ResolveIssueAccessResponse>, Status> {
        let ResolveIssueAccessRequest { account, with_pulls, .. } = request.into_inner();
        let Some(Account::Username(username)) = account else { return Err(Status::unimplemented("no such account")) };
        let state = self.0.lock().unwrap();
        let Some(reviewer) = state.reviewers.get(&username.to_lowercase()) else {
            return Err(failure(Kind::NotFound, "USER_NOT_FOUND"));
        };
        let pull_permission = Permission::Read.into();
        let accesses = match with_pulls && reviewer.can_read {
            true => vec![IssueAccess { pull_permission, ..Default::default() }],
            false => Vec::new(),
        };
        let user = Some(User { id: reviewer.user_id, username, ..Default::default() });
        Ok(Response::new(ResolveIssueAccessResponse { accesses, user }))
    }

    async fn describe_reviewers(
        &self,
        request: Request<DescribeReviewersRequest>,
    ) -> Result<Response<DescribeReviewersResponse>, Status> {
        let request = request.into_inner();
        let meanwhile = self.0.lock().unwrap().meanwhile.take();
        if let Some((db, sql)) = meanwhile {
            db.execute(&sql, &[]).await.unwrap();
        }
        let mut state = self.0.lock().unwrap();
        let named = request.usernames.iter().map(|name| state.reviewers.get(&name.to_lowercase()));
        let with_id = request.user_ids.iter().map(|id| state.reviewers.values().find(|user| user.user_id == *id));
        let users = named.chain(with_id).map(|found| found.cloned().unwrap_or_default()).collect();
        let teams = request.team_names.iter().map(|name| state.teams.get(&name.to_lowercase()));
        let teams = teams.map(|found| found.cloned().unwrap_or_default()).collect();
        state.reviewer_questions.push(request);
        Ok(Response::new(DescribeReviewersResponse { users, teams }))
    }
}

#[tonic::async_trait]
impl FakeLineService for PullPeer {
    async fn find_lines(&self, request: Request<FindLinesRequest>) -> Result<Response<FindLinesResponse>, Status> {
        let (request, mut state) = (request.into_inner(), self.0.lock().unwrap());
        state.line_requests.push(request.clone());
        if !request.commit_id.is_empty() && !state.commits.contains(&request.commit_id) {
            return Err(failure(Kind::NotFound, "COMMIT_NOT_FOUND"));
        }
        let found = |lines: DiffLines| {
            let is_file_missing = lines.path == MISSING_FILE;
            let exists = !is_file_missing && lines.line <= FILE_LINES;
            FoundLines { exists, diff_hunk: format!("@@ {}", lines.path), is_file_missing }
        };
        Ok(Response::new(FindLinesResponse { lines: request.lines.into_iter().map(found).collect() }))
    }
}

#[tonic::async_trait]
impl FakeMergeService for PullPeer {
    async fn stage_head(&self, request: Request<StageHeadRequest>) -> Result<Response<StageHeadResponse>, Status> {
        let (request, state) = (request.into_inner(), self.0.lock().unwrap());
        let find = |repository, branch, end| {
            let found: Option<&String> = state.branches.get(&(repository, branch));
            found.cloned().ok_or_else(|| to_status(&NoBranch(end)))
        };
        let head_id = find(request.head_repository_id, request.head_branch, "head")?;
        let base_id = find(request.repository_id, request.base_branch, "base")?;
        if request.requires_commits && head_id == base_id {
            return Err(failure(Kind::FailedPrecondition, "NOTHING_TO_MERGE"));
        }
        Ok(Response::new(StageHeadResponse {
            head_id,
            merge_base_id: base_id.clone(),
            base_id,
            dismisses_approvals: state.dismisses_approvals,
        }))
    }

    async fn set_pull_head(
        &self,
        request: Request<SetPullHeadRequest>,
    ) -> Result<Response<SetPullHeadResponse>, Status> {
        let mut state = self.0.lock().unwrap();
        if state.fails_set_heads {
            return Err(Status::unavailable("down"));
        }
        state.set_heads.push(request.into_inner());
        Ok(Response::new(SetPullHeadResponse {}))
    }

    async fn find_merged(&self, request: Request<FindMergedRequest>) -> Result<Response<FindMergedResponse>, Status> {
        let state = self.0.lock().unwrap();
        let head_ids = request.into_inner().head_ids.into_iter().filter(|id| state.merged_heads.contains(id)).collect();
        Ok(Response::new(FindMergedResponse { head_ids, is_partial: false }))
    }

    async fn list_merges(&self, request: Request<ListMergesRequest>) -> Result<Response<ListMergesResponse>, Status> {
        let (request, state) = (request.into_inner(), self.0.lock().unwrap());
        let merges = state.merges.iter().filter(|merge| request.numbers.contains(&merge.number)).cloned().collect();
        Ok(Response::new(ListMergesResponse { merges }))
    }
}
