//! Bare repositories on one disk: reads, commits, fetches and pushes, and the journal of what changed.
//!
//! Not here: who may do what (grants say so), and anything about accounts or issues.

mod app;
pub mod archive;
pub mod command;
mod config;
pub mod error;
mod failure;
pub mod hook;
mod http;
pub mod layout;
mod limits;
mod measure;
pub mod name;
mod packs;
pub mod path;
pub mod pktline;
pub mod pool;
pub mod protection;
mod push;
pub mod read;
pub mod refs;
pub mod revision;
mod rpc;
mod store;
pub mod templates;
#[cfg(test)]
mod testing;
mod upkeep;
mod work;
pub mod write;

use std::{sync::Arc, time::SystemTime};

use ferrite_kit::{
    Clock, Lifecycle,
    grpc::Channel,
    net::Listener,
    outbox::{Relay, Subscribers},
    server::{ListenerLimits, serve_all, watch_readiness},
    startup::{ServiceFuture, StartError},
};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    app::{App, Parts, Places},
    command::{Git, GitOptions},
    error::GitError,
    failure::Failure,
    layout::Store,
    packs::Packs,
    pool::{Pool, PoolOptions},
    protection::Protection,
    push::HookSocket,
    refs::Refs,
    store::Repositories,
    upkeep::{Running, Upkeep},
    work::Writer,
};
pub use self::{
    config::Config,
    limits::{GateArgs, LimitArgs, ProcessArgs},
    upkeep::UpkeepArgs,
};

/// Serves on `listeners` until `life` stops and requests in flight are done.
///
/// # Errors
/// When a part of it cannot start: no usable git, a store that another process holds, a database that is out of reach.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    // A write beyond a limit on files is to fail, not to end the process.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    let clock = Clock::system();
    let trust = config.trust.load("git-svc", &clock)?;
    let repo = trust.channel(&config.repo_address);
    let (app, socket, relay) = assemble(&config, &clock, trust.access(&repo), &repo, &life).await?;
    work::sweep_at_start(&app.writer).await.map_err(other)?;
    rpc::remove_deleted(&app).await.map_err(other)?;
    relay.start(&life);
    life.spawn("hooks", push::serve_hooks(app.clone(), socket));
    life.spawn("sweeper", work::sweep_in_background(app.writer.clone(), life.clone()));
    life.spawn("journal purge", work::purge_in_background(app.writer.clone(), life.clone()));
    life.spawn("tidying", upkeep::tidy_in_background(app.clone(), life.clone()));
    life.spawn("pack cache", packs::expire_in_background(app.packs.clone(), life.clone()));
    life.spawn("upkeep", Upkeep::new(&app, config.upkeep).run(life.clone()));
    let db = app.db.clone();
    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", watch_readiness(probe, life.clone()));
    let router = rpc::server(&app).into_router(trust.layer(&repo), http::router(app.clone()), &life);
    serve_all(listeners, router, ListenerLimits::default(), &life).await;
    Ok(())
}

/// Opens everything there is to open.
async fn assemble(
    config: &Config,
    clock: &Clock,
    access: ferrite_kit::auth::Access,
    repo: &Channel,
    life: &Lifecycle,
) -> Result<(App, HookSocket, Relay), StartError> {
    let options = GitOptions {
        program: config.git_program.clone(),
        max_push_bytes: config.max_push_bytes,
        ..GitOptions::of(&config.limits.process)
    };
    let git = Arc::new(Git::find(options).await.map_err(other)?);
    let db = config.database.open(&store::migrations()).await?;
    let disk = Arc::new(Store::open(&config.store_path, &config.store, config.store_patience).await.map_err(other)?);
    let pool = Pool::new(Arc::clone(&disk), PoolOptions::default()).map_err(other)?;
    pool.run_blocking(|store| store.sweep(SystemTime::now())).await.map_err(other)?;
    let limits = archive::Limits { bytes: config.max_archive_bytes, ..archive::Limits::default() };
    let room = config.archive_cache_bytes;
    let archives = pool.run_blocking(move |store| archive::Archives::open(&store.cache(), limits, room)).await;
    let archives = archives.map_err(other)?;
    let room = config.pack_cache_bytes;
    let packs = pool.run_blocking(move |store| Packs::open(&store.cache(), room)).await.map_err(other)?;
    let program = match &config.hook_program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let hooks = push::install_hooks(disk.root(), &program.canonicalize()?).map_err(other)?;
    let socket = HookSocket::bind(disk.root()).map_err(other)?;
    let relay = Relay::new(db.clone(), clock.clone(), Subscribers::from([("repo-svc", repo.clone())]));
    let refs = Refs::new(Arc::clone(&disk), pool.clone(), Arc::clone(&git))
        .keeping(config.ref_table_bytes)
        .within(config.limits.refs);
    let writer = Writer::new(db.clone(), clock.clone(), relay.clone(), Arc::clone(&disk), pool.clone(), refs.clone());
    let app = App::new(Parts {
        repositories: Repositories::new(db.clone()),
        sessions: socket.sessions(config.max_push_refs),
        gates: http::Gates::new(&config.limits.gates),
        limits: config.limits.clone(),
        archives,
        packs,
        max_push_bytes: config.max_push_bytes,
        max_push_objects: config.max_push_objects,
        max_push_refs: config.max_push_refs,
        protection: Protection::new(db.clone(), pool.clone()),
        places: Places::default(),
        path_logs: read::PathLogs::default(),
        running: Running::default(),
        clock: clock.clone(),
        life: life.clone(),
        store: disk,
        db,
        access,
        pool,
        git,
        refs,
        writer,
        hooks,
    });
    Ok((app, socket, relay))
}

fn other(error: impl Into<Failure>) -> StartError {
    match error.into() {
        Failure::Store(error) => StartError::Database(error),
        // The text of these names the cause; a source, if there is one, is a part of it.
        failure => StartError::Other(describe(&failure)),
    }
}

fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Git(GitError::Git(error)) => format!("libgit2: {error}"),
        failure => failure.to_string(),
    }
}
