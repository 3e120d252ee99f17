//! hook-svc: the only writer of webhooks.
//!
//! Checks and stores them. Secrets are written and never returned.
//!
//! Order of the modules, upper to lower; each uses only those below it: this file (wiring), `rpc`, `store`, `model`, `error`,
//! `config`.
//!
//! Not here: decisions about access, which arrive in grants.

mod config;
mod error;
mod model;
mod rpc;
mod store;
#[cfg(test)]
mod testing;

use std::collections::HashMap;

use ferrite_kit::db::Migrations;
use ferrite_kit::net::Listener;
use ferrite_kit::outbox::Relay;
use ferrite_kit::server::{GrpcServer, ListenerLimits, MAX_MESSAGE_BYTES, serve_all, watch_readiness};
use ferrite_kit::startup::{ServiceFuture, StartError};
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::events::event_sink_server::EventSinkServer;
use ferrite_proto::hook::hook_service_server::HookServiceServer;

pub use config::Config;
use rpc::HookRpc;
use store::HookStore;

/// The name of this service in credentials, logs and rows.
pub const ROLE: &str = "hook-svc";

/// Returns the migrations of this service's schema.
#[must_use]
pub fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}

/// Serves on `listeners` until `life` stops and requests in flight are done.
///
/// # Errors
/// When the database, a key or an address cannot be used.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    let clock = Clock::system();
    let trust = config.trust.load(ROLE, &clock)?;
    let db = config.database.open(&migrations()).await?;
    let repo = trust.channel(&config.repo_address);

    // This service has no subscribers: the relay only removes old rows from the inbox.
    Relay::new(db.clone(), clock.clone(), HashMap::new()).start(&life);

    let rpc = HookRpc { store: HookStore::new(db.clone()), access: trust.access(&repo), clock };
    let router = GrpcServer::default()
        .add(HookServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(rpc).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .into_router(trust.layer(&repo), Default::default(), &life);

    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", watch_readiness(probe, life.clone()));
    serve_all(listeners, router, ListenerLimits::default(), &life).await;
    Ok(())
}
