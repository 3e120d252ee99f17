//! issue-svc stores issues, pull requests, reviews, comments, labels and milestones. It alone writes to its database.
//!
//! It closes issues when messages of pushed commits say so, counts the open issues of each
//! repository, and reports the counts to repo-svc and all changes to hook-svc as events. Access
//! decisions are made by repo-svc and arrive in grants.
//!
//! Layers, upper to lower; each uses only those below it: this file (wiring), `rpc`, `state`,
//! `commits`, `pulls`, `upstream`, `writer`, `encode`, `limits`, `store`, `model`, `error`, `config`.

mod commits;
mod config;
mod encode;
mod error;
mod limits;
mod model;
mod pulls;
mod rpc;
mod state;
mod store;
mod telemetry;
#[cfg(test)]
mod testing;
mod upstream;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;

use ferrite_core::net::Listener;
use ferrite_core::startup::{ServiceFuture, StartError};
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Migrations;
use ferrite_db::watch_database;
use ferrite_events::Relay;
use ferrite_listener::{GrpcServer, MAX_MESSAGE_BYTES, serve_all};
use ferrite_proto::ServiceRole;
use ferrite_proto::events::event_sink_server::EventSinkServer;
use ferrite_proto::issue::comment_service_server::CommentServiceServer;
use ferrite_proto::issue::issue_service_server::IssueServiceServer;
use ferrite_proto::issue::label_service_server::LabelServiceServer;
use ferrite_proto::issue::milestone_service_server::MilestoneServiceServer;
use ferrite_proto::issue::pull_service_server::PullServiceServer;
use ferrite_proto::issue::reaction_service_server::ReactionServiceServer;
use ferrite_proto::issue::review_service_server::ReviewServiceServer;
use ferrite_rpc::rate_limit::HourlyLimit;

use commits::{CommitScanner, ScanQueue};
pub use config::Config;
use limits::WriteLimits;
use pulls::{MergeSweeper, PullQueue, PullWorker, Pulls};
use state::AppState;
use store::IssueTable;
use upstream::{GitClient, RepoClient};
use writer::{IssueWriter, TimelineTrimmer};

/// The role of this service in credentials.
pub const ROLE: ServiceRole = ServiceRole::IssueSvc;

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

    let hook = trust.channel(ServiceRole::HookSvc, &config.hook_address);
    let subscribers = HashMap::from([(writer::REPO_SVC, repo.clone()), (writer::HOOK_SVC, hook)]);
    let relay = Relay::new(db.clone(), clock.clone(), subscribers);
    relay.start(config.database.event_retention, &life);
    db.merge_full_text(&["issue_words"], &life);

    let store = IssueTable::new(db.clone());
    let writer = IssueWriter { store: store.clone(), relay, clock: clock.clone() };
    life.spawn("purges", writer::run_purges(writer.clone(), life.clone()));
    TimelineTrimmer { store: store.clone(), bounds: config.timeline, clock: clock.clone() }.start(&life);
    let scans = ScanQueue::new(db.clone());
    let git = trust.store_channel(&config.git_address);
    let pulls = Pulls {
        queue: PullQueue::new(db.clone()),
        repo: RepoClient::new(repo.clone()),
        git: GitClient::new(git.clone()),
        writer: writer.clone(),
        clock: clock.clone(),
        permits: Arc::clone(&trust.token_source),
    };
    PullWorker::new(pulls.clone()).start(&life);
    MergeSweeper::new(pulls.clone()).start(&life);
    life.spawn("scheduled merges", pulls.clone().retry_scheduled(life.clone()));
    CommitScanner::new(scans.clone(), git, repo.clone(), writer.clone(), clock).start(&life);

    let limit = |name, per_hour| HourlyLimit::new(trust.limiter.clone(), name, per_hour);
    let limits = WriteLimits {
        issues: limit("issues", config.issues_per_hour),
        comments: limit("comments", config.comments_per_hour),
        text_bytes: limit("text_bytes", config.text_bytes_per_hour),
    };
    let (authorizer, client) = (trust.authorizer(&repo), RepoClient::new(repo.clone()));
    let verifier = Arc::clone(&trust.verifier);
    let state = AppState { store, writer, scans, pulls, authorizer, repo: client, limits, verifier };
    let router = GrpcServer::default()
        .add(IssueServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(CommentServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(LabelServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MilestoneServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(PullServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ReactionServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ReviewServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(state).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .into_router(trust.layer(&repo), Default::default(), &life);

    watch_database(&db, &life);
    serve_all(listeners, router, trust.listener_options(), &life).await;
    Ok(())
}
