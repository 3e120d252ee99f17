//! Asks repo-svc what accounts may do to the issues of repositories. The caller's own access to one
//! repository is in its grant. Asks git-svc about pull requests in `git`.

mod git;

use std::time::Duration;

use ferrite_markdown::references::TextReferences;
use ferrite_markdown::scan::IssueRef;
use ferrite_proto::Permission;
use ferrite_proto::error::{FieldViolation, reason};
use ferrite_proto::grant::GrantUser;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{
    CheckPullSourceRequest, CheckPullSourceResponse, DescribeRepositoriesRequest, DescribeReviewersRequest,
    DescribeReviewersResponse, IssueAccess, RenewAccessRequest, RenewAccessResponse, Repository, RepositoryRef,
    ResolveIssueAccessRequest, ResolveIssueAccessResponse,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::{Channel, with_timeout};
use tonic::{Code, Status};

use crate::error::IssueError;
use crate::writer::TextTargets;

pub(crate) use git::{GitClient, MergeRefusal, StagedHead};

/// Repositories per call.
pub(crate) const MAX_QUESTION_REPOSITORIES: usize = 1000;

/// Deadline of the questions about pull requests.
const PULL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct RepoClient(Channel);

impl RepoClient {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// Returns what an account may change in the issues of `repositories`, by position. Omits
    /// archived repositories.
    pub(crate) async fn access_of(
        &self,
        account: Account,
        repositories: Vec<RepositoryRef>,
    ) -> Result<ResolveIssueAccessResponse, Status> {
        let account = Some(account);
        self.resolve(ResolveIssueAccessRequest { repositories, account, to_change: true, with_pulls: false }).await
    }

    async fn resolve(&self, request: ResolveIssueAccessRequest) -> Result<ResolveIssueAccessResponse, Status> {
        Ok(AccessServiceClient::new(self.0.clone()).resolve_issue_access(request).await?.into_inner())
    }

    /// Returns the name of a repository's git store, or `None` if the repository does not exist.
    pub(crate) async fn store_of(&self, repository: RepositoryId) -> Result<Option<String>, Status> {
        let request = DescribeRepositoriesRequest { repository_ids: vec![repository.0] };
        let response = AccessServiceClient::new(self.0.clone()).describe_repositories(request).await?;
        Ok(response.into_inner().repositories.pop().map(|found| found.store))
    }

    /// Returns a repository for a service, or `None` if it does not exist.
    pub(crate) async fn describe(&self, repository: RepositoryId) -> Result<Option<Repository>, Status> {
        let request = DescribeRepositoriesRequest { repository_ids: vec![repository.0] };
        let request = with_timeout(request, PULL_TIMEOUT);
        let response = AccessServiceClient::new(self.0.clone()).describe_repositories(request).await?;
        Ok(response.into_inner().repositories.pop())
    }

    /// Returns whether commits of a head repository may go into `repository` through a pull request
    /// of a user. Fails if the base repository does not exist or accepts no pull requests.
    pub(crate) async fn pull_source(
        &self,
        repository: RepositoryId,
        head_repository: RepositoryId,
        user: UserId,
    ) -> Result<CheckPullSourceResponse, IssueError> {
        let request = CheckPullSourceRequest {
            repository_id: repository.0,
            head_repository_id: head_repository.0,
            user_id: user.0,
        };
        let request = with_timeout(request, PULL_TIMEOUT);
        let response = AccessServiceClient::new(self.0.clone()).check_pull_source(request).await;
        let source = response.map_err(|status| unavailable(&status))?.into_inner();
        if source.store.is_empty() {
            return Err(IssueError::RepositoryDeleted);
        }
        if source.accepts_pulls { Ok(source) } else { Err(IssueError::PullsDisabled) }
    }

    /// Returns what users and teams may do with the pull requests of a repository: the users of
    /// `names`, then those of `ids`, and the teams.
    pub(crate) async fn reviewers(
        &self,
        repository: RepositoryId,
        names: &[String],
        ids: &[i64],
        teams: &[String],
    ) -> Result<DescribeReviewersResponse, IssueError> {
        let request = DescribeReviewersRequest {
            repository_id: repository.0,
            usernames: names.to_vec(),
            user_ids: ids.to_vec(),
            team_names: teams.to_vec(),
        };
        let request = with_timeout(request, PULL_TIMEOUT);
        let response = AccessServiceClient::new(self.0.clone()).describe_reviewers(request).await;
        Ok(response.map_err(|status| unavailable(&status))?.into_inner())
    }

    /// Returns a new grant for an operation on a repository by a token, if its access still holds;
    /// by the account of `user` if `token_id` is zero.
    pub(crate) async fn renew_access(
        &self,
        repository: RepositoryId,
        (token_id, user): (i64, UserId),
        operation: &str,
    ) -> Result<RenewAccessResponse, AuthError> {
        let (repository_id, operation) = (repository.0, operation.to_owned());
        let request = RenewAccessRequest { repository_id, operation, token_id, user_id: user.0 };
        let request = with_timeout(request, PULL_TIMEOUT);
        let response = AccessServiceClient::new(self.0.clone()).renew_access(request).await;
        Ok(response.map_err(|status| AuthError::from_authority(&status))?.into_inner())
    }

    /// Returns what a user may do to the issues of repositories now, and with `with_pulls` to their
    /// pull requests, within the reach of the token behind its grant. Fails if the token lacks the
    /// scope `issue`, has expired or was deleted.
    pub(crate) async fn access_of_user(
        &self,
        user: &GrantUser,
        repositories: &[RepositoryId],
        with_pulls: bool,
    ) -> Result<ResolveIssueAccessResponse, IssueError> {
        let repositories = repositories.iter().map(|id| RepositoryRef::by_id(*id)).collect();
        let account = Some(Account::TokenId(user.token_id));
        let response = self.resolve(ResolveIssueAccessRequest { repositories, account, to_change: false, with_pulls });
        Ok(response.await.map_err(|status| AuthError::from_authority(&status))?)
    }

    /// Returns the user with this name, who must be able to read the issues of the repository, or its
    /// pull requests, or the violation of `field`.
    pub(crate) async fn assignee(
        &self,
        repository: RepositoryId,
        is_pull_request: bool,
        (field, name): (&str, &str),
    ) -> Result<Result<UserId, FieldViolation>, IssueError> {
        let refuse = |code, message: &str| Ok(Err(FieldViolation::new(field, code, message)));
        let request = ResolveIssueAccessRequest {
            repositories: vec![RepositoryRef::by_id(repository)],
            account: Some(Account::Username(name.to_owned())),
            to_change: true,
            with_pulls: is_pull_request,
        };
        let response = match self.resolve(request).await {
            Ok(response) => response,
            Err(status) if status.code() == Code::NotFound => return refuse("unknown", "user does not exist"),
            Err(status) => return Err(unavailable(&status)),
        };
        match response.user {
            Some(user) if response.accesses.iter().any(|access| can_read(access, is_pull_request)) => {
                Ok(Ok(UserId(user.id)))
            }
            _ => refuse("no_access", "this user cannot read the repository"),
        }
    }

    /// Returns the issues that a text of `author` mentions, if their repositories are `own` or
    /// readable for the author.
    pub(crate) async fn targets(
        &self,
        own: RepositoryId,
        author: UserId,
        found: TextReferences,
    ) -> Result<TextTargets, IssueError> {
        let mut names: Vec<(String, String)> =
            found.issues.iter().filter_map(|issue| issue.repository.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let accesses = if names.is_empty() {
            Vec::new()
        } else {
            let named = names.iter().map(|(owner, name)| RepositoryRef::by_name(owner, name)).collect();
            let response = self.access_of(Account::UserId(author.0), named).await;
            response.map_err(|status| unavailable(&status))?.accesses
        };
        let repository = |issue: &IssueRef| match &issue.repository {
            None => Some(own),
            Some(name) => {
                let place = names.binary_search(name).ok()?;
                let access = accesses.iter().find(|access| usize::try_from(access.index) == Ok(place))?;
                Some(RepositoryId(access.repository_id))
            }
        };
        let mut issues: Vec<_> =
            found.issues.iter().filter_map(|issue| Some((repository(issue)?, issue.number))).collect();
        issues.sort_unstable_by_key(|(repository, number)| (repository.0, *number));
        issues.dedup();
        Ok(TextTargets { mentions: found.mentions, issues })
    }
}

/// Whether an account can read the issues of a repository, or its pull requests.
pub(crate) fn can_read(access: &IssueAccess, is_pull_request: bool) -> bool {
    let permission = if is_pull_request { access.pull_permission() } else { access.permission() };
    Permission::from(permission) >= Permission::Read
}

fn unavailable(status: &Status) -> IssueError {
    tracing::warn!(code = ?status.code(), reason = reason(status), "cannot look up the permissions of an account");
    AuthError::Unavailable.into()
}
