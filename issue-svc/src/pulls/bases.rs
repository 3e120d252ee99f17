//! Follows base branches: finds what a push has merged, and new names. Applies the closing words of
//! merged pull requests.

use std::collections::HashSet;
use std::time::Duration;

use ferrite_markdown::commit::{self, Action};
use ferrite_proto::Permission;
use ferrite_proto::error::reason;
use ferrite_proto::git::FindMergedRequest;
use ferrite_proto::id::IssueId;
use ferrite_proto::repo::RepositoryRef;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use tokio::time::timeout;
use tonic::Status;

use super::Pulls;
use super::heads::open;
use super::queue::Claim;
use super::worker::UpdateError;
use crate::error::IssueError;
use crate::model::{CommitAction, Merged};
use crate::writer::{ApplyReferences, MergeSource};

/// Pull requests per question, the most that git-svc accepts.
const MAX_BATCH_PULLS: i64 = 1000;
/// Pull requests changed before the lease is extended.
const MAX_STEP_PULLS: usize = 50;
const ACCESS_TIMEOUT: Duration = Duration::from_secs(10);

impl Pulls {
    /// Closes the pull requests whose heads a push to their base contains, if the repository wants
    /// that.
    pub(super) async fn update_base(
        &self,
        claim: &Claim,
        branch: &str,
        (old_id, new_id): (&str, &str),
    ) -> Result<(), UpdateError> {
        let described = self.repo.describe(claim.repository).await.map_err(|status| unavailable(&status))?;
        let Some(described) = described else { return Ok(()) };
        if !described.pulls.is_some_and(|pulls| pulls.detects_manual_merges) {
            return Ok(());
        }
        let mut after = IssueId(0);
        loop {
            let store = &self.writer.store;
            let pulls = store.open_pulls_of_base(claim.repository, branch, after, MAX_BATCH_PULLS).await?;
            let Some(last) = pulls.last() else { return Ok(()) };
            after = last.issue;
            self.require_claim(claim).await?;
            let heads: HashSet<_> = pulls.iter().map(|pull| pull.head_id.clone()).collect();
            let request = FindMergedRequest {
                repository_id: claim.repository.0,
                old_id: old_id.to_owned(),
                new_id: new_id.to_owned(),
                head_ids: heads.into_iter().collect(),
                branch: String::new(),
            };
            let found = self.git.find_merged(&described.store, request).await?;
            let found: HashSet<String> = found.into_iter().collect();
            let merged = pulls.into_iter().filter(|pull| found.contains(&pull.head_id));
            for (place, pull) in merged.enumerate() {
                if place % MAX_STEP_PULLS == 0 {
                    self.require_claim(claim).await?;
                }
                let merged = Merged {
                    number: pull.number,
                    head_id: pull.head_id,
                    base_branch: branch.to_owned(),
                    base_id: old_id.to_owned(),
                    commit_id: new_id.to_owned(),
                    user: claim.user,
                    // The messages of the push are read anyway.
                    reaches_issues: false,
                };
                self.merge(claim.repository, &merged, MergeSource::Push { base_branch: branch }).await?;
            }
        }
    }

    /// Follows a base branch to its new name.
    pub(super) async fn rename_base(&self, claim: &Claim, branch: &str, new_name: &str) -> Result<(), UpdateError> {
        let mut after = IssueId(0);
        loop {
            let store = &self.writer.store;
            let limit = i64::try_from(MAX_STEP_PULLS).unwrap_or(i64::MAX);
            let pulls = store.open_pulls_of_base(claim.repository, branch, after, limit).await?;
            let Some(last) = pulls.last() else { return Ok(()) };
            after = last.issue;
            let mut write = self.begin(claim).await?;
            for pull in pulls {
                if let Some((issue, pull)) = open(write.pull(pull.number).await)?
                    && pull.base_branch == branch
                {
                    write.rename_base(&issue, &pull, new_name).await?;
                }
            }
            write.commit(None, ()).await?;
        }
    }

    /// Closes the issues of the same repository that the title and the body of a merged pull request
    /// say it fixes, if the user who merged it may. Happens once for each issue.
    pub(super) async fn apply_closing_words(
        &self,
        claim: &Claim,
        number: i64,
        commit_id: &str,
    ) -> Result<(), UpdateError> {
        let store = &self.writer.store;
        let Some(issue) = store.find(store.reader(), claim.repository, number).await? else { return Ok(()) };
        let found = commit::parse(&format!("{}\n\n{}", issue.title, issue.body)).into_iter();
        let closing =
            found.filter(|found| found.repository.is_none() && found.action == Action::Close && found.number != number);
        let action = |number| CommitAction {
            source: claim.repository,
            commit_id: commit_id.to_owned(),
            number,
            action: Action::Close,
        };
        let references: Vec<_> = closing.map(|found| action(found.number)).collect();
        if references.is_empty() {
            return Ok(());
        }
        let account = Account::UserId(claim.user.0);
        let access = self.repo.access_of(account, vec![RepositoryRef::by_id(claim.repository)]);
        let access = timeout(ACCESS_TIMEOUT, access).await.map_err(|_| IssueError::GitUnavailable)?;
        let accesses = access.map_err(|status| unavailable(&status))?.accesses;
        let Some(access) = accesses.first() else { return Ok(()) };
        let permission = Permission::from(access.permission());
        self.require_claim(claim).await?;
        Ok(self.writer.apply(claim.repository, &references, claim.user, permission).await?)
    }
}

pub(super) fn unavailable(status: &Status) -> IssueError {
    tracing::warn!(code = ?status.code(), reason = reason(status), "cannot ask repo-svc about a pull request");
    ferrite_rpc::auth::AuthError::Unavailable.into()
}
