//! repo-svc in this process, with one user.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use ed25519_dalek::pkcs8::spki::EncodePublicKey;
use ferrite_benches::Failure;
use ferrite_benches::databases::administer;
use ferrite_core::{Clock, Lifecycle, Secret};
use ferrite_listener::credentials::CredentialArgs;
use ferrite_proto::ServiceRole;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{BasicCredential, CreateAccessTokenRequest};
use ferrite_rpc::grpc::Channel;
use repo_svc::Config;
use repo_svc::admin::{self, NewUser};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

const USER: &str = "ada";

#[derive(Debug)]
pub(crate) struct Server {
    channel: Channel,
    life: Lifecycle,
    token: String,
    user_id: i64,
    _folder: TempDir,
}

fn write_keys(folder: &Path) -> Result<(), Failure> {
    let key = SigningKey::from_bytes(&rand::random());
    std::fs::write(folder.join("grant.pem"), key.to_pkcs8_pem(Default::default())?)?;
    std::fs::write(folder.join("grant.pub.pem"), key.verifying_key().to_public_key_pem(Default::default())?)?;
    std::fs::create_dir(folder.join("public"))?;
    for role in [ServiceRole::RepoSvc, ServiceRole::Gateway] {
        let key = SigningKey::from_bytes(&rand::random());
        std::fs::write(folder.join(format!("{role}.pem")), key.to_pkcs8_pem(Default::default())?)?;
        let public = key.verifying_key().to_public_key_pem(Default::default())?;
        std::fs::write(folder.join(format!("public/{role}.pub.pem")), public)?;
    }
    Ok(())
}

fn config(folder: &Path, url: &Secret) -> Result<Config, Failure> {
    let file = |name: &str| folder.join(name).display().to_string();
    let unused = format!("unix:{}", file("unused.sock"));
    let flags = [
        ("--listen", format!("unix:{}", file("repo.sock"))),
        ("--database-url", url.expose().to_owned()),
        ("--service-key-file", file("repo-svc.pem")),
        ("--service-public-keys", file("public")),
        ("--grant-public-key-file", file("grant.pub.pem")),
        ("--grant-key-file", file("grant.pem")),
        ("--issue-address", unused.clone()),
        ("--hook-address", unused.clone()),
        ("--git-address", unused),
    ];
    let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    Ok(Config::try_parse_from(["repo-svc".to_owned()].into_iter().chain(flags))?)
}

impl Server {
    /// Starts repo-svc on a new database.
    pub(crate) async fn start(url: &Secret) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        write_keys(folder.path())?;
        let config = config(folder.path(), url)?;
        let accounts = admin::open(url).await?;
        let password = hex::encode(rand::random::<[u8; 16]>());
        let new = NewUser {
            username: USER.to_owned(),
            email: "ada@example.com".to_owned(),
            password: Secret::new(password.clone()),
            full_name: String::new(),
            is_admin: false,
        };
        let user_id = accounts.create_user(new).await?.id.0;
        accounts.close().await;

        let gateway =
            CredentialArgs { service_key_file: folder.path().join("gateway.pem"), ..config.process.trust.clone() };
        let trust = gateway.load(ServiceRole::Gateway, &Clock::system())?;
        let life = Lifecycle::new(Duration::from_secs(5));
        let address = config.process.serve.listen[0].clone();
        let listeners = config.process.serve.bind().await?;
        let life2 = life.clone();
        let running = life.spawn("repo-svc", async move { repo_svc::run(config, listeners, life2).await });
        while !life.is_ready() {
            if running.is_finished() {
                running.await??;
                return Err("repo-svc exited immediately".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let channel = trust.channel(ServiceRole::RepoSvc, &address);
        let request = CreateAccessTokenRequest {
            credential: Some(BasicCredential { username: USER.to_owned(), password }),
            username: USER.to_owned(),
            name: "bench".to_owned(),
            ..CreateAccessTokenRequest::default()
        };
        let answer = AccountServiceClient::new(channel.clone()).create_access_token(request).await?;
        let token = answer.into_inner().value;
        Ok(Self { channel, life, token, user_id, _folder: folder })
    }

    /// With the credentials of the gateway.
    pub(crate) fn repositories(&self) -> RepositoryServiceClient<Channel> {
        RepositoryServiceClient::new(self.channel.clone())
    }

    pub(crate) fn accounts(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.channel.clone())
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn user_id(&self) -> i64 {
        self.user_id
    }

    /// Stops repo-svc, which closes its database connections.
    pub(crate) async fn stop(self) {
        self.life.stop();
        self.life.finished().await;
    }
}

/// Drops the trigram indexes, because creating them at the end is faster, and returns their
/// definitions. Empty on SQLite.
pub(crate) async fn set_indexes_aside(url: &Secret) -> Result<Vec<String>, Failure> {
    if url.expose().starts_with("sqlite:") {
        return Ok(Vec::new());
    }
    let mut connection = PgConnection::connect(url.expose()).await?;
    let indexes: Vec<(String, String)> =
        sqlx::query_as("SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '% USING gin %'")
            .fetch_all(&mut connection)
            .await?;
    let mut made_by = Vec::new();
    for (name, definition) in indexes {
        sqlx::query(AssertSqlSafe(format!("DROP INDEX {name}"))).execute(&mut connection).await?;
        made_by.push(definition);
    }
    connection.close().await?;
    Ok(made_by)
}

/// Creates the indexes again and updates PostgreSQL's statistics, as it does by itself within
/// minutes.
pub(crate) async fn restore(url: &Secret, indexes: Vec<String>) -> Result<(), Failure> {
    for definition in indexes {
        administer(url.expose(), definition).await?;
    }
    administer(url.expose(), "VACUUM (ANALYZE)".to_owned()).await
}
