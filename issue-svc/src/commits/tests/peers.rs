//! Fake git-svc, repo-svc and store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::net::{Address, StoreAddresses};
use ferrite_listener::testing::serve_peers;
use ferrite_proto::Permission;
use ferrite_proto::error::Kind;
use ferrite_proto::git::storage_service_server::StorageServiceServer;
use ferrite_proto::git::{ListPushedCommitsRequest, ListPushedCommitsResponse, PushedCommit};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_proto::repo::repository_ref::By;
use ferrite_proto::repo::{
    DescribeRepositoriesRequest, DescribeRepositoriesResponse, IssueAccess, Repository, ResolveIssueAccessRequest,
    ResolveIssueAccessResponse,
};
use ferrite_rpc::grpc::{Channel, channel};
use ferrite_rpc::testing::{Fake, FakeAccessService, FakeStorageService, failure};
use tonic::{Request, Response, Status};

use crate::error::IssueError;
use crate::model::CommitAction;
use crate::writer::ApplyReferences;

/// The git store of all repositories.
pub(super) const STORE: &str = "git-1";
/// A repository that repo-svc no longer knows.
pub(super) const GONE: i64 = 404;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NotFound(&'static str),
    Internal,
    /// Never returns.
    Hangs,
}

impl Failure {
    async fn status(self) -> Status {
        match self {
            Self::NotFound(reason) => failure(Kind::NotFound, reason),
            Self::Internal => Status::internal("internal error"),
            Self::Hangs => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Status::cancelled("too late")
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Commit messages by repository and new id. The commit ids derive from both.
    pushes: HashMap<(i64, String), Vec<String>>,
    /// Ids and permissions by folded owner and name. Also used to look up the name of an id.
    repositories: HashMap<(String, String), (i64, Permission)>,
    git_failures: HashMap<i64, Failure>,
    repo_failure: Option<Failure>,
    listed: Vec<ListPushedCommitsRequest>,
    resolved: Vec<ResolveIssueAccessRequest>,
}

/// Both services in one.
#[derive(Clone, Debug, Default)]
struct Peer(Arc<Mutex<State>>);

/// The fakes on a Unix socket.
pub(super) struct Peers {
    peer: Peer,
    pub(super) life: Lifecycle,
    pub(super) channel: Channel,
    /// Addresses of two stores. The fake is the one with all repositories.
    pub(super) stores: StoreAddresses,
    _folder: tempfile::TempDir,
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.life.stop();
    }
}

impl Peers {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("others.sock"));
        let (peer, life) = (Peer::default(), Lifecycle::new(Duration::from_secs(5)));
        let mut routes = tonic::service::Routes::builder();
        routes.add_service(StorageServiceServer::new(Fake(peer.clone())));
        routes.add_service(AccessServiceServer::new(Fake(peer.clone())));
        serve_peers(&address, routes.routes(), &life).await;
        let stores = format!("git-0=unix:/nonexistent/git-0.sock,{STORE}={address}").parse().unwrap();
        Self { peer, life, channel: channel(&address, None), stores, _folder: folder }
    }

    /// Adds a repository where every user has this permission.
    pub(super) fn add_repository(&self, owner: &str, name: &str, id: i64, permission: Permission) {
        let key = (owner.to_ascii_lowercase(), name.to_ascii_lowercase());
        self.peer.0.lock().unwrap().repositories.insert(key, (id, permission));
    }

    /// Adds the commits of an update, oldest first.
    pub(super) fn add_push(&self, repository: i64, new_id: &str, messages: &[&str]) {
        let messages = messages.iter().map(|&message| message.to_owned()).collect();
        self.peer.0.lock().unwrap().pushes.insert((repository, new_id.to_owned()), messages);
    }

    pub(super) fn fail_git(&self, repository: i64, failure: Option<Failure>) {
        let mut state = self.peer.0.lock().unwrap();
        match failure {
            Some(failure) => state.git_failures.insert(repository, failure),
            None => state.git_failures.remove(&repository),
        };
    }

    pub(super) fn fail_repo(&self, failure: Option<Failure>) {
        self.peer.0.lock().unwrap().repo_failure = failure;
    }

    /// Returns the requests to git-svc.
    pub(super) fn listed(&self) -> Vec<ListPushedCommitsRequest> {
        self.peer.0.lock().unwrap().listed.clone()
    }

    /// Returns the requests to repo-svc.
    pub(super) fn resolved(&self) -> Vec<ResolveIssueAccessRequest> {
        self.peer.0.lock().unwrap().resolved.clone()
    }
}

pub(super) fn commit_id(new_id: &str, place: usize) -> String {
    format!("{new_id}-{place}")
}

#[tonic::async_trait]
impl FakeStorageService for Peer {
    async fn list_pushed_commits(
        &self,
        request: Request<ListPushedCommitsRequest>,
    ) -> Result<Response<ListPushedCommitsResponse>, Status> {
        let request = request.into_inner();
        let failure = {
            let mut state = self.0.lock().unwrap();
            state.listed.push(request.clone());
            state.git_failures.get(&request.repository_id).copied()
        };
        if let Some(failure) = failure {
            return Err(failure.status().await);
        }
        let state = self.0.lock().unwrap();
        let messages = state.pushes.get(&(request.repository_id, request.new_id.clone())).cloned().unwrap_or_default();
        let commit = |(place, message)| PushedCommit { id: commit_id(&request.new_id, place), message };
        Ok(Response::new(ListPushedCommitsResponse { commits: messages.into_iter().enumerate().map(commit).collect() }))
    }
}

#[tonic::async_trait]
impl FakeAccessService for Peer {
    async fn describe_repositories(
        &self,
        request: Request<DescribeRepositoriesRequest>,
    ) -> Result<Response<DescribeRepositoriesResponse>, Status> {
        let found = request.into_inner().repository_ids.into_iter().filter(|id| *id != GONE);
        let repositories = found.map(|id| Repository { id, store: STORE.to_owned(), ..Default::default() });
        Ok(Response::new(DescribeRepositoriesResponse { repositories: repositories.collect() }))
    }

    async fn resolve_issue_access(
        &self,
        request: Request<ResolveIssueAccessRequest>,
    ) -> Result<Response<ResolveIssueAccessResponse>, Status> {
        let request = request.into_inner();
        let failure = {
            let mut state = self.0.lock().unwrap();
            state.resolved.push(request.clone());
            state.repo_failure
        };
        if let Some(failure) = failure {
            return Err(failure.status().await);
        }
        let state = self.0.lock().unwrap();
        let mut accesses = Vec::new();
        for (index, repository) in (0..).zip(&request.repositories) {
            let found = state.repositories.iter().find(|(key, (id, _))| match repository.by.as_ref().unwrap() {
                By::Id(asked) => asked == id,
                By::Name(asked) => **key == (asked.owner.to_ascii_lowercase(), asked.name.to_ascii_lowercase()),
            });
            if let Some(((owner, name), (repository_id, permission))) = found {
                accesses.push(IssueAccess {
                    index,
                    repository_id: *repository_id,
                    owner: owner.to_uppercase(),
                    name: name.clone(),
                    permission: ferrite_proto::repo::Permission::from(*permission).into(),
                    ..Default::default()
                });
            }
        }
        Ok(Response::new(ResolveIssueAccessResponse { accesses, user: None }))
    }
}

/// One call of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) target: i64,
    pub(super) actor: i64,
    pub(super) permission: Permission,
    pub(super) references: Vec<CommitAction>,
}

/// A fake store that records its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer(Arc<Mutex<WriterState>>);

#[derive(Debug, Default)]
struct WriterState {
    applied: Vec<Applied>,
    deleted: HashSet<i64>,
    failing: HashSet<i64>,
}

impl Writer {
    pub(super) fn applied(&self) -> Vec<Applied> {
        self.0.lock().unwrap().applied.clone()
    }

    pub(super) fn delete(&self, repository: i64) {
        self.0.lock().unwrap().deleted.insert(repository);
    }

    pub(super) fn set_failing(&self, repository: i64, is_failing: bool) {
        let mut state = self.0.lock().unwrap();
        if is_failing {
            state.failing.insert(repository)
        } else {
            state.failing.remove(&repository)
        };
    }
}

impl ApplyReferences for Writer {
    async fn apply(
        &self,
        target: RepositoryId,
        references: &[CommitAction],
        actor: UserId,
        permission: Permission,
    ) -> Result<(), IssueError> {
        let mut state = self.0.lock().unwrap();
        if state.deleted.contains(&target.0) {
            return Err(IssueError::RepositoryDeleted);
        }
        if state.failing.contains(&target.0) {
            return Err(IssueError::NotFound { number: 0 });
        }
        state.applied.push(Applied { target: target.0, actor: actor.0, permission, references: references.to_vec() });
        Ok(())
    }
}
