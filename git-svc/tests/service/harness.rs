//! Starts git-svc, and fakes of repo-svc, issue-svc and hook-svc that receive events. The fake
//! repo-svc rejects repeated access checks, unless a test lets it confirm some. Also clients,
//! grants and requests for the tests.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use clap::Parser as _;
use ed25519_dalek::{
    SigningKey,
    pkcs8::{EncodePrivateKey as _, EncodePublicKey as _},
};
use ferrite_core::{
    Clock, Lifecycle,
    net::{Address, ServiceAddresses},
    testing::eventually,
};
use ferrite_listener::credentials::CredentialArgs;
use ferrite_listener::{GrpcServer, ListenerOptions, credentials::ServiceCredentials, serve_all};
use ferrite_proto::{
    Permission, ServiceRole,
    error::to_status,
    events::{
        DeliverRequest, DeliverResponse, Event, RefsUpdated,
        event::Fact,
        event_sink_client::EventSinkClient,
        event_sink_server::{EventSink, EventSinkServer},
    },
    git::{
        CreateRepositoryRequest, PutContentsRequest, diff_service_client::DiffServiceClient,
        git_data_service_client::GitDataServiceClient, git_service_client::GitServiceClient,
        merge_service_client::MergeServiceClient, migration_service_client::MigrationServiceClient,
        mirror_service_client::MirrorServiceClient, storage_service_client::StorageServiceClient,
        tag_service_client::TagServiceClient,
    },
    grant::{Grant, GrantUser, IssueReach, Signer},
    metadata,
    repo::Identity,
};
use ferrite_rpc::{
    auth::{AuthError, TokenAuthority},
    grpc::{Channel, channel},
    testing::ServiceKeys,
};
use git_svc::Config;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use tonic::{Request, Response, Status};

use crate::operations::Operation;

/// A running git-svc with its subscribers. All stop when dropped.
pub(crate) struct Service {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: Address,
    pub(crate) signer: Signer,
    pub(crate) trust: ServiceCredentials,
    pub(crate) keys: ServiceKeys,
    life: Lifecycle,
    done: Option<tokio::task::JoinHandle<()>>,
    subscriber: Subscriber,
    issues: Subscriber,
    webhooks: Subscriber,
    /// Accesses that repo-svc will still confirm.
    confirmations: Arc<AtomicI64>,
    next: AtomicI64,
    others: Lifecycle,
    flags: Vec<String>,
}

#[derive(Clone, Default)]
struct Subscriber(Arc<Mutex<Vec<Event>>>);

impl Subscriber {
    async fn serve(address: &Address, trust: &ServiceCredentials, extra: axum::Router, life: &Lifecycle) -> Self {
        let subscriber = Self::default();
        let listener = address.bind().await.unwrap();
        let server = GrpcServer::default().add(EventSinkServer::new(subscriber.clone()));
        let router = server.into_router(trust.layer_with(None, Arc::new(NoTokens)), extra, life);
        let own = life.clone();
        life.spawn(
            "subscriber",
            async move { serve_all(vec![listener], router, ListenerOptions::default(), &own).await },
        );
        subscriber
    }

    fn facts(&self, repository: i64) -> Vec<Fact> {
        let events = self.0.lock().unwrap().clone();
        events.into_iter().filter(|event| event.repository_id == repository).filter_map(|event| event.fact).collect()
    }

    fn updates(&self, repository: i64) -> Vec<RefsUpdated> {
        let events = self.0.lock().unwrap().clone();
        let of = events.into_iter().filter(|event| event.repository_id == repository);
        of.filter_map(|event| if let Some(Fact::RefsUpdated(fact)) = event.fact { Some(fact) } else { None }).collect()
    }
}

#[tonic::async_trait]
impl EventSink for Subscriber {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().events);
        Ok(Response::new(DeliverResponse {}))
    }
}

/// What repo-svc is asked: it confirms the given number of accesses, then treats all as revoked, and
/// has no release. Grants name no such access unless a test adds it.
fn decisions(confirmations: Arc<AtomicI64>) -> axum::Router {
    let decide = || async move {
        if confirmations.fetch_sub(1, Ordering::SeqCst) > 0 {
            confirmed()
        } else {
            to_status(&AuthError::BadCredentials).into_http::<axum::body::Body>()
        }
    };
    let no_release = || async { confirmed() };
    axum::Router::new()
        .route("/ferrite.repo.v1.AccessService/ReauthorizeAccess", axum::routing::post(decide))
        .route("/ferrite.repo.v1.ReleaseService/GetTagUse", axum::routing::post(no_release))
}

/// Returns gRPC's response with an empty message.
fn confirmed() -> http::Response<axum::body::Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let message = Full::new(Bytes::from_static(&[0; 5])).with_trailers(async move { Some(Ok(trailers)) });
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(axum::body::Body::new(message)).unwrap()
}

struct NoTokens;

#[tonic::async_trait]
impl TokenAuthority for NoTokens {
    async fn authenticate(&self, _: &str) -> Result<Option<Identity>, AuthError> {
        Ok(None)
    }
}

fn config(folder: &Path, more: &[String]) -> Config {
    let file = |name: &str| folder.join(name).display().to_string();
    let flags = [
        ("--listen", format!("unix:{}", file("git.sock"))),
        ("--database-url", format!("sqlite://{}", file("git.db"))),
        ("--service-key-file", file("git-svc.pem")),
        ("--service-public-keys", file("public")),
        ("--grant-public-key-file", file("grant.pub.pem")),
        ("--secret-key-file", file("secret.key")),
        ("--repo-address", format!("unix:{}", file("repo.sock"))),
        ("--issue-address", format!("unix:{}", file("issue.sock"))),
        ("--hook-address", format!("unix:{}", file("hook.sock"))),
        ("--store-path", file("store")),
        ("--store", "s1".to_owned()),
        ("--max-push-bytes", (16 << 20).to_string()),
        ("--max-push-objects", "100000".to_owned()),
        ("--max-push-refs", "1100".to_owned()),
        ("--hook-program", env!("CARGO_BIN_EXE_proc_receive").to_owned()),
    ];
    let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    Config::try_parse_from(["git-svc".to_owned()].into_iter().chain(flags).chain(more.iter().cloned())).unwrap()
}

fn first(addresses: &ServiceAddresses) -> &Address {
    addresses.iter().next().unwrap()
}

fn write_keys(folder: &Path) -> Signer {
    let key = SigningKey::from_bytes(&[7; 32]);
    let private = key.to_pkcs8_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF).unwrap();
    let public = key.verifying_key().to_public_key_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF).unwrap();
    std::fs::write(folder.join("grant.pub.pem"), public).unwrap();
    std::fs::write(folder.join("secret.key"), "5e".repeat(32)).unwrap();
    Signer::from_pem(private.as_bytes()).unwrap()
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(tempfile::tempdir().unwrap(), &[]).await
    }

    pub(crate) async fn start_with(folder: tempfile::TempDir, flags: &[&str]) -> Self {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let signer = write_keys(folder.path());
        let keys = ServiceKeys::write(folder.path());
        let settings = config(folder.path(), &flags);
        let load = |role| {
            let trust = CredentialArgs { service_key_file: keys.private_file(role), ..settings.process.trust.clone() };
            trust.load(role, &Clock::system()).unwrap()
        };
        let trust = load(ServiceRole::Gateway);
        let others = Lifecycle::new(Duration::from_secs(30));
        let (repo, issue, hook) =
            (first(&settings.repo_address), first(&settings.issue_address), first(&settings.hook_address));
        let (nothing, confirmations) = (axum::Router::new(), Arc::new(AtomicI64::new(0)));
        let decisions = decisions(Arc::clone(&confirmations));
        let subscriber = Subscriber::serve(repo, &load(ServiceRole::RepoSvc), decisions, &others).await;
        let issues = Subscriber::serve(issue, &load(ServiceRole::IssueSvc), nothing.clone(), &others).await;
        let webhooks = Subscriber::serve(hook, &load(ServiceRole::HookSvc), nothing, &others).await;
        let address = settings.process.serve.listen[0].clone();
        let life = Lifecycle::new(Duration::from_secs(30));
        let next = AtomicI64::new(1);
        let mut service = Self {
            folder,
            address,
            signer,
            trust,
            keys,
            life,
            done: None,
            subscriber,
            issues,
            webhooks,
            confirmations,
            next,
            others,
            flags,
        };
        service.launch().await;
        service
    }

    /// Starts git-svc, also after [`Service::stop`], and waits until it is ready.
    pub(crate) async fn launch(&mut self) {
        let settings = config(self.folder.path(), &self.flags);
        let listeners = settings.process.serve.bind().await.unwrap();
        self.life = Lifecycle::new(Duration::from_secs(30));
        let life = self.life.clone();
        let work = async move { git_svc::run(settings, listeners, life).await.unwrap() };
        self.done = Some(self.others.spawn("git-svc", work));
        for _ in 0..1000 {
            if self.life.is_ready() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("git-svc is not ready");
    }

    pub(crate) async fn stop(&mut self) -> Duration {
        let start = std::time::Instant::now();
        self.life.stop();
        self.done.take().unwrap().await.unwrap();
        assert!(self.life.finished().await, "a task did not end");
        start.elapsed()
    }

    /// Lets repo-svc confirm the next `count` access checks. It rejects later ones.
    pub(crate) fn confirm_accesses(&self, count: i64) {
        self.confirmations.store(count, Ordering::SeqCst);
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Returns a channel with the credential of the gateway.
    pub(crate) fn channel(&self) -> Channel {
        self.trust.channel(ServiceRole::GitSvc, &self.address)
    }

    pub(crate) fn channel_of(&self, from: ServiceRole) -> Channel {
        self.keys.channel(from, ServiceRole::GitSvc, &self.address)
    }

    pub(crate) fn git(&self) -> GitServiceClient<Channel> {
        GitServiceClient::new(self.channel()).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn data(&self) -> GitDataServiceClient<Channel> {
        GitDataServiceClient::new(self.channel()).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn diffs(&self) -> DiffServiceClient<Channel> {
        DiffServiceClient::new(self.channel()).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn tags(&self) -> TagServiceClient<Channel> {
        TagServiceClient::new(self.channel())
    }

    pub(crate) fn merges(&self) -> MergeServiceClient<Channel> {
        MergeServiceClient::new(self.channel())
    }

    /// Opens the repository on disk, for changes that no RPC or push allows.
    pub(crate) fn on_disk(&self, repository: i64) -> git2::Repository {
        use sha2::Digest as _;
        let hash = hex::encode(sha2::Sha256::digest(repository.to_string().as_bytes()));
        let folder = self.store().join("repos").join(&hash[..2]).join(&hash[2..4]);
        git2::Repository::open_bare(folder.join(format!("{repository}.git"))).unwrap()
    }

    /// Returns a channel without a service credential.
    pub(crate) fn stranger(&self) -> Channel {
        channel(&self.address, None)
    }

    pub(crate) fn storage(&self) -> StorageServiceClient<Channel> {
        StorageServiceClient::new(self.channel_of(ServiceRole::RepoSvc))
    }

    pub(crate) fn imports(&self) -> MigrationServiceClient<Channel> {
        MigrationServiceClient::new(self.channel_of(ServiceRole::RepoSvc))
    }

    pub(crate) fn mirrors(&self) -> MirrorServiceClient<Channel> {
        MirrorServiceClient::new(self.channel())
    }

    pub(crate) fn sink(&self) -> EventSinkClient<Channel> {
        EventSinkClient::new(self.channel_of(ServiceRole::RepoSvc))
    }

    pub(crate) async fn create(&self) -> i64 {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        self.storage().create_repository(creation(id)).await.unwrap();
        id
    }

    /// Returns a grant with write permission for user 7, named ada, whose commits may close issues
    /// everywhere.
    pub(crate) fn grant(&self, repository: i64, operation: &str) -> Grant {
        let user = GrantUser {
            id: 7,
            username: "ada".into(),
            full_name: "Ada Lovelace".into(),
            email: "ada@example.com".into(),
            token_id: 0,
            is_session: false,
        };
        Grant {
            user: Some(user),
            repository,
            operation: operation.to_owned(),
            permission: Permission::Write,
            issues_enabled: true,
            pulls_enabled: true,
            store: "s1".to_owned(),
            epoch: 1,
            issue_reach: IssueReach::All,
            ..Grant::default()
        }
    }

    pub(crate) fn sign(&self, grant: Grant) -> String {
        self.signer.sign(grant, now(), Duration::from_secs(60))
    }

    pub(crate) fn with_grant<T: Operation>(&self, repository: i64, message: T) -> Request<T> {
        with_token(message, &self.sign(self.grant(repository, T::OPERATION)))
    }

    pub(crate) async fn put(&self, repository: i64, path: &str, content: &[u8]) -> String {
        let request = self.with_grant(repository, put_request(repository, path, content));
        self.git().put_contents(request).await.unwrap().into_inner().commit.unwrap().id
    }

    /// Returns the last size in bytes that was published without a ref update.
    pub(crate) fn told_size(&self, repository: i64) -> Option<i64> {
        let events = self.subscriber.0.lock().unwrap();
        let of = events.iter().rev().filter(|event| event.repository_id == repository);
        of.filter_map(
            |event| if let Some(Fact::SizeChanged(size)) = &event.fact { Some(size.size_bytes) } else { None },
        )
        .next()
    }

    /// Returns all facts of a repository that repo-svc has received, in order of arrival.
    pub(crate) fn facts(&self, repository: i64) -> Vec<Fact> {
        self.subscriber.facts(repository)
    }

    pub(crate) async fn updates(&self, repository: i64, count: usize) -> Vec<RefsUpdated> {
        Self::wait_for_updates(&self.subscriber, repository, count).await
    }

    /// Like [`Service::updates`], for issue-svc.
    pub(crate) async fn updates_for_issues(&self, repository: i64, count: usize) -> Vec<RefsUpdated> {
        Self::wait_for_updates(&self.issues, repository, count).await
    }

    /// Like [`Service::updates`], for hook-svc.
    pub(crate) async fn updates_for_hooks(&self, repository: i64, count: usize) -> Vec<RefsUpdated> {
        Self::wait_for_updates(&self.webhooks, repository, count).await
    }

    async fn wait_for_updates(subscriber: &Subscriber, repository: i64, count: usize) -> Vec<RefsUpdated> {
        let updates = || subscriber.updates(repository);
        let arrived = format!("{count} events of {repository} arrived");
        eventually(&arrived, || std::future::ready(updates().len() >= count)).await;
        let facts = updates();
        assert_eq!(facts.len(), count, "{facts:?}");
        facts
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.life.stop();
        self.others.stop();
    }
}

pub(crate) fn creation(id: i64) -> CreateRepositoryRequest {
    CreateRepositoryRequest {
        repository_id: id,
        store: "s1".into(),
        epoch: 1,
        default_branch: "main".into(),
        ..CreateRepositoryRequest::default()
    }
}

pub(crate) fn put_request(repository: i64, path: &str, content: &[u8]) -> PutContentsRequest {
    PutContentsRequest {
        repository_id: repository,
        path: path.as_bytes().to_vec(),
        content: Some(content.to_vec().into()),
        message: format!("Write {path}\n"),
        ..PutContentsRequest::default()
    }
}

pub(crate) fn with_token<T>(message: T, grant: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(metadata::GRANT, grant.parse().unwrap());
    request
}

pub(crate) fn reason(status: &Status) -> String {
    ferrite_proto::error::reason(status).unwrap_or_else(|| format!("{status:?}"))
}
