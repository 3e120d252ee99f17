//! The service under test on a real socket, with fakes of git-svc and the subscribers.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use ed25519_dalek::pkcs8::spki::EncodePublicKey;
use ferrite_core::net::Address;
use ferrite_core::{Clock, Lifecycle, Secret};
use ferrite_db::Db;
use ferrite_listener::credentials::CredentialArgs;
use ferrite_listener::credentials::ServiceCredentials;
use ferrite_listener::testing::serve_peers;
use ferrite_proto::ServiceRole;
use ferrite_proto::events::Event;
use ferrite_proto::git;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::administration_service_client::AdministrationServiceClient;
use ferrite_proto::repo::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::profile_service_client::ProfileServiceClient;
use ferrite_proto::repo::public_key_service_client::PublicKeyServiceClient;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::session_service_client::SessionServiceClient;
use ferrite_proto::repo::user_settings_service_client::UserSettingsServiceClient;
use ferrite_proto::repo::{BasicCredential, CreateAccessTokenRequest, CreateRepositoryRequest, Repository};
use ferrite_rpc::grpc::{Channel, channel};
use ferrite_rpc::testing::ServiceKeys;
use tonic::{Request, Status};

use super::fake_peer::{FakePeer, StoreMode};
use crate::admin::{self, Accounts, NewUser, User};
use crate::config::Config;
use crate::state::AppState;

pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) struct Harness {
    folder: tempfile::TempDir,
    database_url: Secret,
    life: Lifecycle,
    peer: FakePeer,
    trust: ServiceCredentials,
    accounts: Accounts,
    keys: ServiceKeys,
    address: Address,
    /// Has the credential of the gateway.
    pub(crate) service: Channel,
    pub(crate) unauthenticated: Channel,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.life.stop();
    }
}

fn write_keys(folder: &Path) {
    let key = SigningKey::from_bytes(&rand::random());
    std::fs::write(folder.join("grant.pem"), key.to_pkcs8_pem(Default::default()).unwrap()).unwrap();
    std::fs::write(folder.join("grant.pub.pem"), key.verifying_key().to_public_key_pem(Default::default()).unwrap())
        .unwrap();
}

fn config(folder: &Path, database_url: &Secret, extra: &[&str]) -> Config {
    let file = |name: &str| folder.join(name).display().to_string();
    let socket = |name: &str| format!("unix:{}", file(name));
    let flags = [
        ("--listen", socket("repo.sock")),
        ("--database-url", database_url.expose().to_owned()),
        ("--service-key-file", file("repo-svc.pem")),
        ("--service-public-keys", file("public")),
        ("--grant-public-key-file", file("grant.pub.pem")),
        ("--grant-key-file", file("grant.pem")),
        ("--issue-address", socket("others.sock")),
        ("--hook-address", socket("others.sock")),
        ("--git-address", socket("others.sock")),
        ("--public-url", "http://git.example.com/".to_owned()),
        ("--ssh", "git.example.com:22".to_owned()),
    ];
    let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let all = ["repo-svc".to_owned()].into_iter().chain(flags).chain(extra.iter().map(|&flag| flag.to_owned()));
    Config::try_parse_from(all).unwrap()
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(extra: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database_url = Secret::new(format!("sqlite://{}", folder.path().join("repo.db").display()));
        Self::start_in(folder, database_url, extra).await
    }

    /// Starts the service on an empty PostgreSQL or SQLite database.
    pub(crate) async fn start_on(database_url: Secret) -> Self {
        Self::start_on_with(database_url, &[]).await
    }

    /// Like [`Harness::start_on`], with more flags.
    pub(crate) async fn start_on_with(database_url: Secret, extra: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), database_url, extra).await
    }

    async fn start_in(folder: tempfile::TempDir, database_url: Secret, extra: &[&str]) -> Self {
        write_keys(folder.path());
        let keys = ServiceKeys::write(folder.path());
        let config = config(folder.path(), &database_url, extra);
        let life = Lifecycle::new(Duration::from_secs(5));
        let peer = FakePeer::new();
        serve_peers(&Address::Unix(folder.path().join("others.sock")), peer.routes(), &life).await;

        let gateway = CredentialArgs {
            service_key_file: keys.private_file(ServiceRole::Gateway),
            ..config.process.trust.clone()
        };
        let trust = gateway.load(ServiceRole::Gateway, &Clock::system()).unwrap();
        let accounts = admin::open(config.database.url()).await.unwrap();
        let address = config.process.serve.listen[0].clone();
        let listeners = config.process.serve.bind().await.unwrap();
        let life2 = life.clone();
        life.spawn("repo-svc", async move { crate::run(config, listeners, life2).await.unwrap() });
        while !life.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (service, unauthenticated) = (trust.channel(ServiceRole::RepoSvc, &address), channel(&address, None));
        Self { folder, database_url, life, peer, trust, accounts, service, unauthenticated, keys, address }
    }

    /// For rows that no RPC writes or shows.
    pub(crate) async fn db(&self) -> Db {
        Db::open(&self.database_url, 2).await.unwrap()
    }

    /// Builds a second application state over the same database, for work that no RPC starts.
    pub(crate) async fn state(&self) -> AppState {
        self.state_with(&[]).await
    }

    /// Like [`Harness::state`], with more flags: another replica.
    pub(crate) async fn state_with(&self, extra: &[&str]) -> AppState {
        let config = config(self.folder.path(), &self.database_url, extra);
        let trust = config.process.trust.load(ServiceRole::RepoSvc, &Clock::system()).unwrap();
        let signer = crate::signer(&config, &trust, &Clock::system()).unwrap();
        AppState::new(config, &trust, signer, self.db().await, Clock::system(), self.life.clone())
    }

    /// Stops the service as a signal would, and waits for it.
    pub(crate) async fn stop(&self) {
        self.life.stop();
        assert!(self.life.finished().await, "it ends in time");
    }

    pub(crate) fn channel_of(&self, from: ServiceRole) -> Channel {
        self.keys.channel(from, ServiceRole::RepoSvc, &self.address)
    }

    /// Delivers each event with the role that sends it in production.
    pub(crate) async fn deliver(&self, events: Vec<Event>) -> Result<(), Status> {
        self.keys.deliver(ServiceRole::RepoSvc, &self.address, events).await
    }

    pub(crate) fn trust(&self) -> &ServiceCredentials {
        &self.trust
    }

    pub(crate) fn set_store(&self, mode: StoreMode) {
        *self.peer.0.mode.lock().unwrap() = mode;
    }

    /// Removes and returns the calls that change something on a store, each with its store.
    pub(crate) fn take_asked_stores(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut *self.peer.0.asked_stores.lock().unwrap())
    }

    /// Returns the ids of the repositories in the fake git-svc.
    pub(crate) fn stored(&self) -> HashSet<i64> {
        self.peer.0.made.lock().unwrap().clone()
    }

    pub(crate) fn forget_stored(&self, id: i64) {
        self.peer.0.made.lock().unwrap().remove(&id);
    }

    pub(crate) fn create_requests(&self) -> Vec<git::CreateRepositoryRequest> {
        self.peer.0.create_requests.lock().unwrap().clone()
    }

    pub(crate) fn import_requests(&self) -> Vec<git::StartMigrationRequest> {
        self.peer.0.import_requests.lock().unwrap().clone()
    }

    pub(crate) fn tags(&self) -> Vec<git::CreateTagRequest> {
        self.peer.0.tags.lock().unwrap().clone()
    }

    pub(crate) fn take_deleted_files(&self) -> Vec<String> {
        std::mem::take(&mut *self.peer.0.deleted_files.lock().unwrap())
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.peer.0.events.lock().unwrap().clone()
    }

    pub(crate) fn access(&self) -> AccessServiceClient<Channel> {
        AccessServiceClient::new(self.service.clone())
    }

    pub(crate) fn account(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.service.clone())
    }

    pub(crate) fn administration(&self) -> AdministrationServiceClient<Channel> {
        AdministrationServiceClient::new(self.service.clone())
    }

    pub(crate) fn profile(&self) -> ProfileServiceClient<Channel> {
        ProfileServiceClient::new(self.service.clone())
    }

    pub(crate) fn public_keys(&self) -> PublicKeyServiceClient<Channel> {
        PublicKeyServiceClient::new(self.service.clone())
    }

    pub(crate) fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.service.clone())
    }

    pub(crate) fn user_settings(&self) -> UserSettingsServiceClient<Channel> {
        UserSettingsServiceClient::new(self.service.clone())
    }

    pub(crate) fn imports(&self) -> MigrationServiceClient<Channel> {
        MigrationServiceClient::new(self.service.clone())
    }

    pub(crate) fn repository(&self) -> RepositoryServiceClient<Channel> {
        RepositoryServiceClient::new(self.service.clone())
    }

    pub(crate) async fn user(&self, name: &str, is_admin: bool) -> User {
        let new = NewUser {
            username: name.to_owned(),
            email: format!("{name}@example.com"),
            password: Secret::new(PASSWORD),
            full_name: String::new(),
            is_admin,
        };
        self.accounts.create_user(new).await.unwrap()
    }

    pub(crate) async fn token(&self, username: &str, name: &str) -> String {
        let request = CreateAccessTokenRequest {
            credential: Some(basic(username, PASSWORD)),
            username: username.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        self.account().create_access_token(request).await.unwrap().into_inner().value
    }

    pub(crate) async fn signed_in(&self, name: &str) -> String {
        self.user(name, false).await;
        self.token(name, "test").await
    }

    pub(crate) async fn create(&self, token: &str, name: &str, is_private: bool) -> Result<Repository, Status> {
        let request = CreateRepositoryRequest { name: name.to_owned(), is_private, ..Default::default() };
        let response = self.repository().create_repository(with_token(request, token)).await?;
        Ok(response.into_inner().repository.unwrap())
    }
}

pub(crate) fn basic(username: &str, password: &str) -> BasicCredential {
    BasicCredential { username: username.to_owned(), password: password.to_owned() }
}

/// Sends no credentials if `token` is empty.
pub(crate) fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}
