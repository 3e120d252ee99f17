//! repo-svc: accounts and repositories. The only writer of users, access tokens and repository metadata, and the authority on
//! who may do what to a repository: every other service asks it, or trusts a grant that it signed.
//!
//! Not here: bytes of repositories (git-svc), issues, webhooks, JSON.

pub mod access;
pub mod admin;
mod config;
mod core;
mod credentials;
mod error;
mod grants;
mod model;
mod password;
mod rpc;
mod store;
#[cfg(test)]
mod testing;
mod throttle;
mod work;

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::credentials::ServiceCredentials;
use ferrite_kit::db::Db;
use ferrite_kit::net::Listener;
use ferrite_kit::outbox::Relay;
use ferrite_kit::server::{GrpcServer, ListenerLimits, serve_all, watch_readiness};
use ferrite_kit::startup::{ServiceFuture, StartError};
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::Permission;
use ferrite_proto::grant::{Grant, Signer};

pub use config::Config;
pub use error::RepoError;

use crate::core::{Core, LocalAuthority};
use crate::grants::Grants;
use crate::password::Passwords;
use crate::store::{
    AccountStore, AuditStore, CollaboratorStore, DeployKeyStore, OrganizationStore, ProfileStore, PublicKeyStore,
    RepositoryStore, TeamStore, TokenStore,
};
use crate::throttle::Throttle;
use crate::work::LastUse;

/// Serves accounts and repositories on `listeners` until `life` stops and requests in flight are done.
///
/// # Errors
/// When a key or the database cannot be used.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    let clock = Clock::system();
    let trust = config.trust.load("repo-svc", &clock)?;
    let signer = signer(&config, &trust, &clock)?;
    let db = config.database.open(&store::migrations()).await?;
    let core = Arc::new(core(config, &trust, signer, db.clone(), clock, life.clone()));
    core.repositories.add_store(&core.config.store, core.clock.now_us()).await?;

    core.relay.start(&life);
    work::start_sweeper(Arc::clone(&core), &life);
    work::start_last_use(Arc::clone(&core), &life);
    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", watch_readiness(probe, life.clone()));

    let auth = trust.layer_with(None, Arc::new(LocalAuthority(Arc::clone(&core))));
    let router = rpc::register(GrpcServer::default(), Arc::clone(&core)).into_router(auth, axum::Router::new(), &life);
    serve_all(listeners, router, ListenerLimits::default(), &life).await;
    work::write_last_use(&core).await;
    Ok(())
}

fn core(config: Config, trust: &ServiceCredentials, signer: Signer, db: Db, clock: Clock, life: Lifecycle) -> Core {
    let subscribers = [
        ("issue-svc", trust.channel(&config.issue_address)),
        ("hook-svc", trust.channel(&config.hook_address)),
        ("git-svc", trust.channel(&config.git_address)),
    ];
    Core {
        accounts: AccountStore::new(db.clone()),
        tokens: TokenStore::new(db.clone()),
        repositories: RepositoryStore::new(db.clone()),
        collaborators: CollaboratorStore::new(db.clone()),
        deploy_keys: DeployKeyStore::new(db.clone()),
        organizations: OrganizationStore::new(db.clone()),
        teams: TeamStore::new(db.clone()),
        profiles: ProfileStore::new(db.clone()),
        public_keys: PublicKeyStore::new(db.clone()),
        audit: AuditStore::new(db.clone()),
        passwords: Passwords::new(),
        throttle: Throttle::new(trust.limiter.clone(), config.sign_in.clone()),
        limiter: trust.limiter.clone(),
        last_use: LastUse::default(),
        grants: Grants::new(signer, clock.clone()),
        cache: trust.token_cache.clone(),
        storage: trust.channel(&config.git_address),
        relay: Relay::new(db.clone(), clock.clone(), subscribers.into_iter().collect()),
        db,
        life,
        clock,
        config,
    }
}

/// The signer of grants, tried out: a key that the other services would not accept must not serve.
fn signer(config: &Config, trust: &ServiceCredentials, clock: &Clock) -> Result<Signer, StartError> {
    let file = config.grant_key_file.display().to_string();
    let pem = std::fs::read(&config.grant_key_file)
        .map_err(|error| StartError::Other(format!("grant key file `{file}`: {error}")))?;
    let signer = Signer::from_pem(&pem).map_err(|source| StartError::GrantKey { file: file.clone(), source })?;
    let grant = Grant {
        user: None,
        repository: 0,
        operation: String::new(),
        permission: Permission::None,
        issues_enabled: false,
        is_mirror: false,
        store: String::new(),
        epoch: 0,
    };
    let token = signer.sign(grant, clock.now_secs(), Duration::from_secs(60));
    match trust.verifier.verify(&token) {
        Ok(_) => Ok(signer),
        Err(_) => {
            Err(StartError::Other(format!("grant key file `{file}` does not belong to the public key of grants")))
        }
    }
}
