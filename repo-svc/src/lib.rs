//! repo-svc owns accounts and repositories. It is the only writer of users, access tokens and
//! repository metadata, and the authority on permissions: other services ask it, or accept a grant
//! that it signed.
//!
//! Modules from top to bottom; each uses only those below it: this file (wiring), `rpc`, `state`,
//! `admin`, `background`, `placement`, `auth`, `creation_limit`, `store`, `access`, `model`,
//! `error`, `config`.

pub mod access;
pub mod admin;
mod auth;
mod background;
mod config;
mod creation_limit;
mod error;
mod model;
mod placement;
mod rpc;
mod state;
mod store;
mod telemetry;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::net::Listener;
use ferrite_core::startup::{ServiceFuture, StartError};
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::watch_database;
use ferrite_listener::credentials::ServiceCredentials;
use ferrite_listener::{GrpcServer, serve_all};
use ferrite_proto::ServiceRole;
use ferrite_proto::grant::{Grant, Signer};

pub use config::Config;
pub use error::RepoError;
pub use model::{may_be_account_name, may_be_repository_name};

use crate::background::{
    AuditPurge, DownloadWriter, FileSweeper, ImportSweeper, LastUseWriter, SessionSweeper, StorePoller, Sweeper,
    TransferSweeper,
};
use crate::state::AppState;

/// Serves on `listeners` until `life` stops and requests in flight are done.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

/// Checks the settings and the files they name, before any address is bound.
pub fn check(config: &Config) -> Result<(), StartError> {
    let clock = Clock::system();
    let trust = config.process.trust.load(ServiceRole::RepoSvc, &clock)?;
    signer(config, &trust, &clock).map_err(|error| error.of("FERRITE_REPO_GRANT_KEY_FILE"))?;
    config.database.check()
}

/// Waits for the database and Redis, and migrates the schema.
pub fn wait_for_servers(config: &Config, life: &Lifecycle) -> ServiceFuture {
    config.process.wait_for_servers(config.database.wait(store::migrations(), life), life)
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    ferrite_core::telemetry::describe(telemetry::METRICS);
    let clock = Clock::system();
    let trust = config.process.trust.load(ServiceRole::RepoSvc, &clock)?;
    let signer = signer(&config, &trust, &clock)?;
    let db = config.database.open(&store::migrations(), &trust.shared_limiter).await?;
    let state = AppState::new(config, &trust, signer, db.clone(), clock, life.clone());
    state.stores.table().add_first(&state.config.store, state.clock.now_us()).await?;
    state.stores.refresh().await?;

    state.relay.start(state.config.database.event_retention, &life);
    StorePoller::new(state.stores.clone(), state.config.placement.poll_interval()).start(&life);
    Sweeper::new(state.repositories.clone(), state.storage.clone(), state.clock.clone()).start(&life);
    state.heads.clone().start(&life);
    let (repositories, imports) = (state.repositories.clone(), state.imports.clone());
    let sweeper =
        ImportSweeper::new(state.db.clone(), repositories, imports, state.storage.clone(), state.clock.clone());
    sweeper.start(&life);
    TransferSweeper::new(state.transfers.clone(), state.clock.clone()).start(&life);
    let stores = state.stores.table().clone();
    FileSweeper::new(state.releases.clone(), stores, state.storage.clone(), state.clock.clone()).start(&life);
    AuditPurge::new(state.audit.clone(), state.config.audit_days, state.clock.clone()).start(&life);
    SessionSweeper::new(state.sessions.clone(), state.clock.clone()).start(&life);
    let download_writer = DownloadWriter::new(Arc::clone(&state.downloads), state.releases.clone());
    download_writer.clone().start(&life);
    let last_use_writer = LastUseWriter::new(Arc::clone(&state.last_use), state.tokens.clone());
    last_use_writer.clone().start(&life);
    db.merge_full_text(&["repositories_text", "users_text"], &life);
    watch_database(&db, &life);

    let auth = trust.layer_with(trust.token_cache.clone(), Arc::new(state.token_authenticator.clone()));
    let router = rpc::register(GrpcServer::default(), &state).into_router(auth, axum::Router::new(), &life);
    serve_all(listeners, router, trust.listener_options(), &life).await;
    last_use_writer.write().await;
    download_writer.write().await;
    Ok(())
}

/// Loads the key that signs grants, and signs one grant to check that the other services will
/// accept it.
fn signer(config: &Config, trust: &ServiceCredentials, clock: &Clock) -> Result<Signer, StartError> {
    let file = config.grant_key_file.display().to_string();
    let pem = std::fs::read(&config.grant_key_file)
        .map_err(|error| StartError::Other(format!("grant key file `{file}`: {error}")))?;
    let signer = Signer::from_pem(&pem).map_err(|source| StartError::GrantKey { file: file.clone(), source })?;
    let token = signer.sign(Grant::default(), clock.now_secs(), Duration::from_secs(60));
    match trust.verifier.verify(&token) {
        Ok(_) => Ok(signer),
        Err(_) => Err(StartError::Other(format!("grant key file `{file}` does not match the public key for grants"))),
    }
}
