//! The git service: bare repositories on one disk, with reads, commits, fetches, pushes, and the journal of ref changes.
//!
//! Not here: permissions (repo-svc decides, and grants carry its decisions), accounts and issues.

mod admission;
mod config;
mod db;
pub mod disk;
pub mod git;
mod http;
mod maintenance;
mod ref_updates;
pub mod repo;
mod rpc;
mod state;
#[cfg(test)]
mod testing;
mod transfer;
pub mod types;

use std::{sync::Arc, time::SystemTime};

use ferrite_kit::{
    Clock, Lifecycle, admin,
    boot::{StartError, serve_all},
    grpc::Channel,
    net::Listener,
    outbox::{Relay, Subscribers},
    serve::Limits,
};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

pub use self::{
    config::{
        Config,
        limits::{LimitArgs, LimiterArgs, ProcessArgs},
        maintenance::MaintenanceArgs,
    },
    transfer::push::hook,
};
use self::{
    db::RepositoryTable,
    disk::repositories::RepositoryStore,
    git::command::{Git, GitOptions},
    maintenance::{MaintenanceService, RunningJobs},
    ref_updates::{RefUpdater, protection::BranchProtection},
    repo::{
        pool::{Pool, PoolOptions},
        refs::Refs,
    },
    state::{AppState, EpochCache, Parts},
    transfer::{fetch::PackCache, push::HookSocket},
    types::{error::GitError, rpc_error::RpcError},
};

/// Serves on `listeners` until `life` stops and requests in flight are done.
///
/// # Errors
/// When a component cannot start: no usable git, a store that another process holds, a database that is out of reach.
pub async fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    // Handled, so that a write beyond the file size limit (`RLIMIT_FSIZE`) fails instead of ending the process.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    let clock = Clock::system();
    let trust = config.trust.load("git-svc", &clock)?;
    let repo = trust.channel(&config.repo_address);
    let (app, socket, relay) = assemble(&config, &clock, trust.access(&repo), &repo, &life).await?;
    ref_updates::recover_at_start(&app.updater).await.map_err(start_error)?;
    rpc::remove_deleted(&app).await.map_err(start_error)?;
    relay.start(&life);
    life.spawn("hooks", transfer::push::serve_hooks(app.clone(), socket));
    life.spawn("sweeper", ref_updates::recover_in_background(app.updater.clone(), life.clone()));
    life.spawn("journal purge", ref_updates::purge_in_background(app.updater.clone(), life.clone()));
    life.spawn("tidying", maintenance::clean_up_in_background(app.clone(), life.clone()));
    life.spawn("pack cache", transfer::fetch::expire_in_background(app.packs.clone(), life.clone()));
    life.spawn("upkeep", MaintenanceService::new(&app, config.upkeep).run(life.clone()));
    let db = app.db.clone();
    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", admin::watch_readiness(probe, life.clone()));
    let router = rpc::server(&app).into_router(trust.layer(&repo), http::router(app.clone()), &life);
    serve_all(listeners, router, Limits::default(), &life).await;
    Ok(())
}

/// Opens git, the database, the store and its caches, and builds the shared state from them.
async fn assemble(
    config: &Config,
    clock: &Clock,
    access: ferrite_kit::auth::Access,
    repo: &Channel,
    life: &Lifecycle,
) -> Result<(AppState, HookSocket, Relay), StartError> {
    let options = GitOptions {
        program: config.git_program.clone(),
        max_push_bytes: config.max_push_bytes,
        ..GitOptions::of(&config.limits.process)
    };
    let git = Arc::new(Git::find(options).await.map_err(start_error)?);
    let db = config.database.open(&db::migrations()).await?;
    let disk = Arc::new(
        RepositoryStore::open(&config.store_path, &config.store, config.store_patience).await.map_err(start_error)?,
    );
    let pool = Pool::new(Arc::clone(&disk), PoolOptions::default()).map_err(start_error)?;
    pool.run_blocking(|store| store.sweep(SystemTime::now())).await.map_err(start_error)?;
    let limits = transfer::archive::ArchiveLimits {
        bytes: config.max_archive_bytes,
        ..transfer::archive::ArchiveLimits::default()
    };
    let capacity = config.archive_cache_bytes;
    let archives =
        pool.run_blocking(move |store| transfer::archive::ArchiveCache::open(&store.cache(), limits, capacity)).await;
    let archives = archives.map_err(start_error)?;
    let capacity = config.pack_cache_bytes;
    let packs = pool.run_blocking(move |store| PackCache::open(&store.cache(), capacity)).await.map_err(start_error)?;
    let program = match &config.hook_program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let hooks = transfer::push::install_hooks(disk.root(), &program.canonicalize()?).map_err(start_error)?;
    let socket = HookSocket::bind(disk.root()).map_err(start_error)?;
    let relay = Relay::new(db.clone(), clock.clone(), Subscribers::from([("repo-svc", repo.clone())]));
    let refs = Refs::new(Arc::clone(&disk), pool.clone(), Arc::clone(&git))
        .with_cache_bytes(config.ref_table_bytes)
        .with_deadline(config.limits.refs);
    let updater =
        RefUpdater::new(db.clone(), clock.clone(), relay.clone(), Arc::clone(&disk), pool.clone(), refs.clone());
    let app = AppState::new(Parts {
        repositories: RepositoryTable::new(db.clone()),
        sessions: socket.sessions(config.max_push_refs),
        limiters: admission::limiter::Limiters::new(&config.limits.limiters),
        limits: config.limits.clone(),
        archives,
        packs,
        max_push_bytes: config.max_push_bytes,
        max_push_objects: config.max_push_objects,
        max_push_refs: config.max_push_refs,
        protection: BranchProtection::new(db.clone(), pool.clone()),
        epochs: EpochCache::default(),
        path_logs: repo::read::PathLogCache::default(),
        running: RunningJobs::default(),
        clock: clock.clone(),
        life: life.clone(),
        store: disk,
        db,
        access,
        pool,
        git,
        refs,
        updater,
        hooks,
    });
    Ok((app, socket, relay))
}

/// Converts an error for the launcher, with its cause in the text.
fn start_error(error: impl Into<RpcError>) -> StartError {
    match error.into() {
        RpcError::Store(error) => StartError::Database(error),
        // The text of these errors includes their source.
        failure => StartError::Other(describe(&failure)),
    }
}

fn describe(failure: &RpcError) -> String {
    match failure {
        RpcError::Git(GitError::Git(error)) => format!("libgit2: {error}"),
        failure => failure.to_string(),
    }
}
