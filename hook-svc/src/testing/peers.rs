//! Fake repo-svc and git-svc with the repositories, accounts, commits and failures that a test
//! sets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::net::Address;
use ferrite_listener::testing::serve_peers;
use ferrite_proto::git::storage_service_server::StorageServiceServer;
use ferrite_proto::git::{
    DescribeUpdatesRequest, DescribeUpdatesResponse, DescribedCommit, DescribedHead, Person, UpdateDescription,
};
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_proto::repo::account_service_server::AccountServiceServer;
use ferrite_proto::repo::{
    DescribeRepositoriesRequest, DescribeRepositoriesResponse, GetUsersRequest, GetUsersResponse, ReadableRelease,
    Repository, ResolveFeedAccessRequest, ResolveFeedAccessResponse, User,
};
use ferrite_proto::text_digest;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::{Channel, channel};
use ferrite_rpc::testing::{Fake, FakeAccessService, FakeAccountService, FakeStorageService};
use prost_types::Timestamp;
use tonic::{Code, Request, Response, Status};

#[derive(Debug, Default)]
pub(super) struct State {
    repositories: HashMap<i64, Repository>,
    users: HashMap<i64, User>,
    /// Numbers of commits by the new id of an update. Defaults to one.
    commit_counts: HashMap<String, usize>,
    /// Message lengths by the new id of an update. Defaults to a short message.
    message_bytes: HashMap<String, usize>,
    heads: HashMap<i64, DescribedHead>,
    git_failures: HashMap<i64, Code>,
    repo_failure: Option<Code>,
    calls: usize,
    readable: Readable,
}

/// The read access of feed readers, and the requests that asked for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readable {
    /// Whether the feed is closed to everybody.
    pub(crate) nothing: bool,
    pub(crate) issues: bool,
    pub(crate) pulls: bool,
    pub(crate) repositories: Vec<i64>,
    /// Releases and their notes.
    pub(crate) releases: Vec<(i64, &'static str)>,
    pub(crate) questions: Vec<ResolveFeedAccessRequest>,
}

/// Both services in one.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer(Arc<Mutex<State>>);

/// The fakes on a Unix socket.
pub(crate) struct FakePeers {
    peer: Peer,
    pub(crate) life: Lifecycle,
    pub(crate) channel: Channel,
    _folder: tempfile::TempDir,
}

impl Drop for FakePeers {
    fn drop(&mut self) {
        self.life.stop();
    }
}

impl FakePeers {
    /// Starts the fakes with the users `ada` (7) and `bob` (8).
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("others.sock"));
        let (peer, life) = (Peer::default(), Lifecycle::new(Duration::from_secs(5)));
        let mut routes = tonic::service::Routes::builder();
        routes.add_service(StorageServiceServer::new(Fake(peer.clone())));
        routes.add_service(AccessServiceServer::new(Fake(peer.clone())));
        routes.add_service(AccountServiceServer::new(Fake(peer.clone())));
        serve_peers(&address, routes.routes(), &life).await;
        let peers = Self { peer, life, channel: channel(&address, None), _folder: folder };
        for (id, name) in [(7, "ada"), (8, "bob")] {
            peers.state(|state| state.users.insert(id, user(id, name)));
        }
        peers
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.peer.0.lock().unwrap())
    }

    /// Adds the repository `ada/r{id}`, or one of an organization.
    pub(crate) fn add_repository(&self, id: i64, organization: Option<i64>) {
        self.state(|state| state.repositories.insert(id, repository(id, organization)));
    }

    /// Changes a repository. Creates `ada/r{id}` first if it does not exist.
    pub(crate) fn change_repository(&self, id: i64, change: impl FnOnce(&mut Repository)) {
        self.state(|state| change(state.repositories.entry(id).or_insert_with(|| repository(id, None))));
    }

    pub(crate) fn remove_repository(&self, id: i64) {
        self.state(|state| state.repositories.remove(&id));
    }

    /// Sets the number of commits in an update to `new_id`.
    pub(crate) fn set_commit_count(&self, new_id: &str, count: usize) {
        self.state(|state| state.commit_counts.insert(new_id.to_owned(), count));
    }

    /// Sets the length of the commit messages in an update to `new_id`.
    pub(crate) fn set_message_bytes(&self, new_id: &str, bytes: usize) {
        self.state(|state| state.message_bytes.insert(new_id.to_owned(), bytes));
    }

    /// Sets the newest commit of a repository's default branch.
    pub(crate) fn set_head(&self, repository: i64, id: &str, parent_id: &str) {
        let (commit, parent_id) = (Some(commit(id)), parent_id.to_owned());
        let head = DescribedHead { branch: b"main".to_vec(), commit, parent_id };
        self.state(|state| state.heads.insert(repository, head));
    }

    pub(crate) fn fail_git(&self, repository: i64, code: Option<Code>) {
        self.state(|state| match code {
            Some(code) => state.git_failures.insert(repository, code),
            None => state.git_failures.remove(&repository),
        });
    }

    pub(crate) fn fail_repo(&self, code: Option<Code>) {
        self.state(|state| state.repo_failure = code);
    }

    /// Changes what readers may see. Returns the requests so far.
    pub(crate) fn readable(&self, change: impl FnOnce(&mut Readable)) -> Vec<ResolveFeedAccessRequest> {
        self.state(|state| {
            change(&mut state.readable);
            std::mem::take(&mut state.readable.questions)
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.state(|state| state.calls)
    }
}

fn user(id: i64, name: &str) -> User {
    User { id, username: name.to_owned(), email: format!("{name}@example.com"), ..User::default() }
}

/// Returns the repository `ada/r{id}`, or one of an organization.
pub(crate) fn repository(id: i64, organization: Option<i64>) -> Repository {
    let owner = match organization {
        Some(id) => User { is_organization: true, ..user(id, "acme") },
        None => user(7, "ada"),
    };
    let time = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
    Repository {
        id,
        owner: Some(owner),
        name: format!("r{id}"),
        default_branch: "main".to_owned(),
        create_time: time,
        update_time: time,
        store: "default".to_owned(),
        has_issues: true,
        ..Repository::default()
    }
}

fn commit(id: &str) -> DescribedCommit {
    let time = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
    let person = Person { name: "Ada".to_owned(), email: "ada@example.com".to_owned(), time };
    DescribedCommit {
        id: id.to_owned(),
        message: format!("message of {id}\n"),
        author: Some(person.clone()),
        committer: Some(person),
        added: vec!["a.txt".to_owned()],
        ..DescribedCommit::default()
    }
}

#[tonic::async_trait]
impl FakeStorageService for Peer {
    async fn describe_updates(
        &self,
        request: Request<DescribeUpdatesRequest>,
    ) -> Result<Response<DescribeUpdatesResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        if let Some(code) = state.git_failures.get(&request.repository_id) {
            return Err(Status::new(*code, "failure of the test"));
        }
        let describe = |new_id: &String| {
            let count = state.commit_counts.get(new_id).copied().unwrap_or(1);
            let mut described = commit(new_id);
            if let Some(bytes) = state.message_bytes.get(new_id) {
                described.message = "m".repeat(*bytes);
            }
            let commits = std::iter::repeat_n(described, count.min(request.commit_limit as usize));
            UpdateDescription { commits: commits.collect(), total_commits: count as i64, ..Default::default() }
        };
        let updates = request.updates.iter().map(|update| describe(&update.new_id)).collect();
        let head = state.heads.get(&request.repository_id).filter(|_| request.with_head).cloned();
        Ok(Response::new(DescribeUpdatesResponse { updates, head }))
    }
}

#[tonic::async_trait]
impl FakeAccessService for Peer {
    async fn resolve_feed_access(
        &self,
        request: Request<ResolveFeedAccessRequest>,
    ) -> Result<Response<ResolveFeedAccessResponse>, Status> {
        let request = request.into_inner();
        let readable = &mut self.0.lock().unwrap().readable;
        readable.questions.push(request.clone());
        if readable.nothing {
            return Err(AuthError::RepositoryNotFound.into());
        }
        let is_asked = |id: &i64| request.repository_ids.contains(id);
        let release =
            |(id, notes): &(i64, &str)| ReadableRelease { id: *id, notes_digest: text_digest(notes).to_vec() };
        let releases = readable.releases.iter().filter(|(id, _)| request.release_ids.contains(id)).map(release);
        Ok(Response::new(ResolveFeedAccessResponse {
            can_read_issues: readable.issues,
            can_read_pulls: readable.pulls,
            repository_ids: readable.repositories.iter().copied().filter(is_asked).collect(),
            releases: releases.collect(),
        }))
    }

    async fn describe_repositories(
        &self,
        request: Request<DescribeRepositoriesRequest>,
    ) -> Result<Response<DescribeRepositoriesResponse>, Status> {
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        if let Some(code) = state.repo_failure {
            return Err(Status::new(code, "failure of the test"));
        }
        let ids = request.into_inner().repository_ids;
        let repositories = ids.iter().filter_map(|id| state.repositories.get(id).cloned()).collect();
        Ok(Response::new(DescribeRepositoriesResponse { repositories }))
    }
}

#[tonic::async_trait]
impl FakeAccountService for Peer {
    async fn get_users(&self, request: Request<GetUsersRequest>) -> Result<Response<GetUsersResponse>, Status> {
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        let request = request.into_inner();
        let is_asked = |user: &&User| request.user_ids.contains(&user.id) || request.emails.contains(&user.email);
        let users: Vec<_> = state.users.values().filter(is_asked).cloned().collect();
        let user_id_by_email = users.iter().map(|user| (user.email.clone(), user.id)).collect();
        Ok(Response::new(GetUsersResponse { users, user_id_by_email }))
    }
}
