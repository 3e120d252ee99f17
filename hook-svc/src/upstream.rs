//! Batched calls to repo-svc and git-svc for the parts of payloads: repositories, accounts and
//! commits. Callers decide about retries.

use std::collections::HashMap;
use std::time::Duration;

use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{DescribeUpdatesRequest, DescribeUpdatesResponse, UpdateToDescribe};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::{DescribeRepositoriesRequest, GetUsersRequest, GetUsersResponse, Repository};
use ferrite_rpc::grpc::{Channel, StoreChannel, for_store, with_timeout};
use tonic::Status;

/// Ref updates per call.
pub(crate) const MAX_QUESTION_UPDATES: usize = 64;
/// Accounts or repositories per call.
const MAX_QUESTION_IDS: usize = 1000;
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptionLimits {
    pub(crate) commits: usize,
    pub(crate) paths: usize,
    pub(crate) message_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    repo: Channel,
    git: StoreChannel,
}

impl Upstream {
    pub(crate) fn new(repo: Channel, git: StoreChannel) -> Self {
        Self { repo, git }
    }

    /// Returns the repositories that exist.
    pub(crate) async fn repositories(&self, ids: &[RepositoryId]) -> Result<HashMap<RepositoryId, Repository>, Status> {
        let mut found = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(MAX_QUESTION_IDS) {
            let repository_ids = ids.iter().map(|id| id.0).collect();
            let request = with_timeout(DescribeRepositoriesRequest { repository_ids }, QUESTION_TIMEOUT);
            let response = AccessServiceClient::new(self.repo.clone()).describe_repositories(request).await?;
            let repositories = response.into_inner().repositories;
            found.extend(repositories.into_iter().map(|found| (RepositoryId(found.id), found)));
        }
        Ok(found)
    }

    /// Returns the accounts that exist, by id and by email address.
    pub(crate) async fn accounts(&self, ids: &[i64], emails: &[String]) -> Result<Vec<GetUsersResponse>, Status> {
        let request = |ids: &[i64], emails: &[String]| GetUsersRequest {
            user_ids: ids.to_vec(),
            emails: emails.to_vec(),
            with_emails: true,
            ..Default::default()
        };
        // Ids and addresses nearly always fit into one call.
        let requests: Vec<_> = if ids.len() + emails.len() <= MAX_QUESTION_IDS {
            vec![request(ids, emails)]
        } else {
            let by_id = ids.chunks(MAX_QUESTION_IDS).map(|ids| request(ids, &[]));
            by_id.chain(emails.chunks(MAX_QUESTION_IDS).map(|emails| request(&[], emails))).collect()
        };
        let mut found = Vec::with_capacity(requests.len());
        for request in requests {
            let response =
                AccountServiceClient::new(self.repo.clone()).get_users(with_timeout(request, QUESTION_TIMEOUT)).await?;
            found.push(response.into_inner());
        }
        Ok(found)
    }

    /// Returns the commits of at most [`MAX_QUESTION_UPDATES`] ref updates, and with `with_head`
    /// also the newest commit of the default branch. Fails with `NOT_FOUND` for a repository
    /// without a git store, whose `store` is empty.
    pub(crate) async fn describe_updates(
        &self,
        repository: RepositoryId,
        store: &str,
        updates: Vec<UpdateToDescribe>,
        limits: DescriptionLimits,
        with_head: bool,
    ) -> Result<DescribeUpdatesResponse, Status> {
        if store.is_empty() && !self.git.is_single() {
            return Err(Status::not_found("the repository no longer exists"));
        }
        let limit = |limit: usize| i32::try_from(limit).unwrap_or(i32::MAX);
        let request = DescribeUpdatesRequest {
            repository_id: repository.0,
            updates,
            commit_limit: limit(limits.commits),
            path_limit: limit(limits.paths),
            message_bytes_limit: limit(limits.message_bytes),
            with_head,
        };
        let request = for_store(with_timeout(request, QUESTION_TIMEOUT), store);
        Ok(StorageServiceClient::new(self.git.clone()).describe_updates(request).await?.into_inner())
    }
}
