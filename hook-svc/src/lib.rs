//! hook-svc stores webhooks and sends their deliveries. It alone writes to its database.
//!
//! URLs and secrets are sealed in the database. Responses never contain secrets. Access decisions
//! are made by repo-svc and arrive in grants.
//!
//! Layers, upper to lower; each uses only those below it: this file (wiring), `config`, `rpc`,
//! `state`, `feed`, `sender`, `dispatch`, `redaction`, `payload`, `upstream`, `store`, `error`,
//! `secrets`, `model`.

mod config;
mod dispatch;
mod error;
mod feed;
mod model;
mod payload;
mod redaction;
mod rpc;
mod secrets;
mod sender;
mod state;
mod store;
mod telemetry;
#[cfg(test)]
mod testing;
mod upstream;

use std::collections::HashMap;

use ferrite_core::net::Listener;
use ferrite_core::sealing::{SealError, Sealer};
use ferrite_core::startup::{ServiceFuture, StartError};
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::watch_database;
use ferrite_db::{Db, Migrations};
use ferrite_events::Relay;
use ferrite_listener::{GrpcServer, MAX_MESSAGE_BYTES, serve_all};
use ferrite_outbound::{AllowList, Client, Policy};
use ferrite_proto::events::event_sink_server::EventSinkServer;
use ferrite_proto::hook::activity_service_server::ActivityServiceServer;
use ferrite_proto::hook::delivery_service_server::DeliveryServiceServer;
use ferrite_proto::hook::feed_service_server::FeedServiceServer;
use ferrite_proto::hook::hook_service_server::HookServiceServer;
use ferrite_proto::{MAX_FACT_TEXT_BYTES, ServiceRole};
use ferrite_rpc::rate_limit::HourlyLimit;

pub use config::Config;
use dispatch::{Dispatcher, Renderer};
use error::HookError;
use feed::{Feed, FeedWaiters, Retention};
use ferrite_api_types::links::Links;
use redaction::Redactor;
use sender::Sender;
use state::AppState;
use store::HookTable;
use store::events::EventTable;
use upstream::Upstream;

/// The role of this service in credentials.
pub const ROLE: ServiceRole = ServiceRole::HookSvc;

/// Largest batch of events: 64 events with at most four texts each (an issue, a comment, and their
/// replaced texts), doubled to leave room for everything else.
const MAX_EVENTS_BYTES: usize = 2 * 64 * 4 * MAX_FACT_TEXT_BYTES;

/// The migrations of this service's schema.
#[must_use]
pub fn migrations() -> Migrations {
    Migrations {
        postgres: sqlx_macros::migrate!("migrations/postgres"),
        sqlite: sqlx_macros::migrate!("migrations/sqlite"),
    }
}

/// Serves on `listeners` until `life` stops and the requests in flight are done.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

/// Checks the settings and the files they name before the service binds an address.
pub fn check(config: &Config) -> Result<(), StartError> {
    config.process.trust.load(ROLE, &Clock::system())?;
    Sealer::read(&config.secret_key_file, secrets::SERVICE).map_err(|error| error.of("FERRITE_SECRET_KEY_FILE"))?;
    config.database.check()
}

/// Waits for the database and Redis, then migrates the schema.
pub fn wait_for_servers(config: &Config, life: &Lifecycle) -> ServiceFuture {
    config.process.wait_for_servers(config.database.wait(migrations(), life), life)
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    ferrite_core::telemetry::describe(telemetry::METRICS);
    let clock = Clock::system();
    let trust = config.process.trust.load(ROLE, &clock)?;
    let db = config.database.open(&migrations(), &trust.shared_limiter).await?;
    let repo = trust.channel(ServiceRole::RepoSvc, &config.repo_address);

    let policy = config.outbound.policy();
    let store = open_store(&db, &config).await?;
    let relay = Relay::new(db.clone(), clock.clone(), HashMap::from([(rpc::SUBSCRIBER, repo.clone())]));
    relay.start(config.database.event_retention, &life);

    let client = Client::new(policy.clone());
    let events = EventTable::new(db.clone());
    events.advance_ids(clock.now_us()).await?;
    let grown = events.grown().clone();
    let sender = Sender::new(store.clone(), client, clock.clone(), config.delivery, grown.clone());
    sender.start(&life);
    let upstream = Upstream::new(repo.clone(), trust.store_channel(&config.git_address));
    let retention = Retention {
        store: events.clone(),
        upstream: upstream.clone(),
        settings: config.feed.clone(),
        clock: clock.clone(),
    };
    retention.start(&life);
    let links = Links::new(&config.site.public_url, &config.site.ssh);
    let renderer = Renderer::new(events.clone(), upstream, links);
    let wake = sender.clone();
    let dispatcher = Dispatcher::new(events.clone(), renderer.clone(), clock.clone(), move || wake.wake());
    dispatcher.start(&life);
    let redactor = Redactor::new(events.clone());
    redactor.start(&life);
    let authorizer = trust.authorizer(&repo);
    let waiters = FeedWaiters::default();
    let feed = Feed::new(events.clone(), renderer.clone(), authorizer.clone(), waiters.clone(), life.clone());
    feed.start(clock.clone(), config.feed);

    let state = AppState {
        store,
        authorizer,
        relay,
        policy,
        owner_limit: config.owner_limit,
        creations: HourlyLimit::new(trust.limiter.clone(), "hooks", config.creations_per_hour),
        deliveries: HourlyLimit::new(trust.limiter.clone(), "deliveries", config.manual_deliveries_per_hour),
        renderer,
        sender,
        dispatcher,
        feed,
        activities: events,
        waiters,
        grown,
        redactor,
        clock,
    };
    let router = GrpcServer::default()
        .add(HookServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(DeliveryServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ActivityServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(FeedServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(state).max_decoding_message_size(MAX_EVENTS_BYTES))
        .into_router(trust.layer(&repo), Default::default(), &life);

    watch_database(&db, &life);
    serve_all(listeners, router, trust.listener_options(), &life).await;
    Ok(())
}

/// Opens the table of webhooks and seals rows that were written before the installation had a key.
async fn open_store(db: &Db, config: &Config) -> Result<HookTable, StartError> {
    let sealer = Sealer::read(&config.secret_key_file, secrets::SERVICE)?;
    let store = HookTable::new(db.clone(), sealer);
    let failed = |error: HookError| match error {
        HookError::Store(error) => error.into(),
        HookError::Sealed(SealError::Unopenable) => {
            let file = config.secret_key_file.display();
            StartError::Other(format!("secret key file `{file}` has no key that opens the webhooks in the database"))
        }
        error => StartError::Other(error.to_string()),
    };
    store.check_key().await.map_err(failed)?;
    let any_address = "0.0.0.0/0,::/0".parse::<AllowList>().map_err(|error| StartError::Other(error.to_string()))?;
    let sealed = store.seal_rows(&Policy::new(any_address)).await.map_err(failed)?;
    if sealed > 0 {
        tracing::info!(sealed, "sealed webhook URLs and secrets");
    }
    Ok(store)
}
