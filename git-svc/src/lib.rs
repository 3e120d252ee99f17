//! The git service: bare repositories on one disk. It serves reads, commits, fetches and pushes,
//! and keeps the journal of ref changes.
//!
//! Each module uses only those below it:
//!
//! | modules | contents |
//! |---|---|
//! | `config`, this file | settings and wiring |
//! | `rpc`, `http` | transports: gRPC and HTTP |
//! | `state` | `AppState`, which holds the services; only the transports and this file know it |
//! | `imports` | imports and mirrors of repositories on other hosts |
//! | `languages` | counts of languages in the background |
//! | `maintenance` | repacking, checks and clean-up in the background |
//! | `transfer` | fetches, pushes and archives |
//! | `ref_updates` | ref transactions under the journal, branch protection |
//! | `admission`, `db` | limits on concurrent work; database tables |
//! | `rpc_error` | the error of all RPCs |
//!
//! Below all of them is the crate `git_store`.

mod admission;
mod config;
mod db;
mod http;
mod imports;
mod languages;
mod maintenance;
mod merges;
mod ref_updates;
mod rpc;
mod rpc_error;
mod state;
mod telemetry;
#[cfg(test)]
mod testing;
mod transfer;

use std::{path::Path, sync::Arc, time::SystemTime};

use ferrite_core::{
    Clock, Lifecycle,
    net::Listener,
    sealing::Sealer,
    startup::{ServiceFuture, StartError},
};
use ferrite_db::watch_database;
use ferrite_events::{Relay, Subscribers};
use ferrite_listener::{credentials::ServiceCredentials, serve_all};
use git_store::{
    disk::{repositories::RepositoryStore, space::DiskSpaceMeter},
    git::command::{Git, GitOptions, find_program, sees_children},
    repo::{
        pool::{Pool, PoolOptions},
        read::{PathLogCache, commit_paths::CommitPathCache},
        refs::Refs,
    },
    types::{error::GitError, limits::PushLimits},
};

use ferrite_outbound::Client;
use ferrite_proto::ServiceRole;
use moka::sync::Cache;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    admission::{backlog::Backlogs, limiter::Limiters, memory_budget::MemoryBudget},
    db::{RepositoryTable, StatusTable},
    imports::{ImportParts, ImportService},
    languages::{LanguageParts, LanguageService},
    maintenance::{MaintenanceParts, MaintenanceService},
    merges::Merges,
    ref_updates::{HOOK_SVC, ISSUE_SVC, REPO_SVC, RefUpdater, protection::BranchProtection},
    rpc_error::RpcError,
    state::{AppState, MAX_CACHED_EPOCHS, Parts, RepositoryCaches},
    transfer::{
        archive::{ArchiveCache, ArchiveLimits, ArchiveService},
        copy::CopyService,
        fetch::{FetchService, PackCache, large_repositories},
        process_pipe::Transfers,
        push::{HookServer, HookSocket, PushService, install_hooks},
        stage::StageService,
    },
};
pub use self::{
    config::{
        Config, git_program,
        imports::ImportArgs,
        limits::{LimitArgs, LimiterArgs, ProcessArgs},
        maintenance::MaintenanceArgs,
        packs::PackArgs,
    },
    imports::options::Protocols,
    transfer::push::hook,
};

/// How to get a git that can be used.
const GIT_HINT: &str = "on Debian 12, Ubuntu 24.04 and newer, `apt-get install git` installs one that is new enough; for \
                        another one, set FERRITE_GIT_PROGRAM (--git-program) to its path";

/// Serves on `listeners` until `life` stops and requests in flight are done.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

/// Checks the settings, and the files they name, before any address is bound.
pub fn check(config: &Config) -> Result<(), StartError> {
    config.process.trust.load(ServiceRole::GitSvc, &Clock::system())?;
    Sealer::read(&config.secret_key_file, "git-svc").map_err(|error| error.of("FERRITE_SECRET_KEY_FILE"))?;
    config.database.check()
}

/// Waits for the database and Redis, then migrates the schema.
pub fn wait_for_servers(config: &Config, life: &Lifecycle) -> ServiceFuture {
    config.process.wait_for_servers(config.database.wait(db::migrations(), life), life)
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    // Handle the signal, so that a write beyond `RLIMIT_FSIZE` fails instead of killing the
    // process.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    ferrite_core::telemetry::describe(telemetry::METRICS);
    let clock = Clock::system();
    let trust = config.process.trust.load(ServiceRole::GitSvc, &clock)?;
    let repo = trust.channel(ServiceRole::RepoSvc, &config.repo_address);
    let subscribers = Subscribers::from([
        (REPO_SVC, repo.clone()),
        (ISSUE_SVC, trust.channel(ServiceRole::IssueSvc, &config.issue_address)),
        (HOOK_SVC, trust.channel(ServiceRole::HookSvc, &config.hook_address)),
    ]);
    let (state, socket, relay) = assemble(&config, &clock, &trust, trust.authorizer(&repo), subscribers, &life).await?;
    ref_updates::recover_at_start(&state.updater).await.map_err(start_error)?;
    rpc::remove_deleted(&state).await.map_err(start_error)?;
    relay.start(config.database.event_retention, &life);
    let (sessions, pushes, fetches) = (state.sessions.clone(), state.pushes.clone(), state.fetches.clone());
    let server = HookServer { sessions, pushes, fetches, life: life.clone() };
    life.spawn("hooks", server.run(socket));
    life.spawn("sweeper", ref_updates::recover_in_background(state.updater.clone(), life.clone()));
    life.spawn("journal purge", ref_updates::purge_in_background(state.updater.clone(), life.clone()));
    let (statuses, retention) = (state.statuses.clone(), config.limits.status_retention());
    life.spawn("status purge", statuses.purge_in_background(clock.clone(), retention, life.clone()));
    life.spawn("pack cache", state.fetches.clone().expire_in_background());
    let (maintenance, own) = (Arc::clone(&state.maintenance), life.clone());
    life.spawn("tidying", async move { maintenance.clean_up_in_background(own).await });
    let (maintenance, own) = (Arc::clone(&state.maintenance), life.clone());
    life.spawn("maintenance", async move { maintenance.run(own).await });
    let (maintenance, own) = (Arc::clone(&state.maintenance), life.clone());
    life.spawn("consolidation", async move { maintenance.consolidate_in_background(own).await });
    let (maintenance, own) = (Arc::clone(&state.maintenance), life.clone());
    life.spawn("bases", async move { maintenance.renew_bases_in_background(own).await });
    life.spawn("imports", state.imports.clone().run(life.clone()));
    life.spawn("languages", state.languages.clone().run(life.clone()));
    life.spawn("store metrics", telemetry::measure_store(state.clone(), life.clone()));
    watch_database(&state.db, &life);
    let router = rpc::server(&state).into_router(trust.layer(&repo), http::router(state.clone()), &life);
    let router = http::refuse_other_stores(router, state.store.name());
    serve_all(listeners, router, trust.listener_options(), &life).await;
    Ok(())
}

async fn assemble(
    config: &Config,
    clock: &Clock,
    trust: &ServiceCredentials,
    authorizer: ferrite_rpc::auth::Authorizer,
    subscribers: Subscribers,
    life: &Lifecycle,
) -> Result<(AppState, HookSocket, Relay), StartError> {
    let sealer = Sealer::read(&config.secret_key_file, "git-svc")?;
    let git = Arc::new(find_git(config).await.map_err(git_error)?);
    let db = config.database.open(&db::migrations(), &trust.shared_limiter).await?;
    let store = RepositoryStore::open(&config.store_path, config.store.as_str(), config.store_patience).await;
    let store = Arc::new(store.map_err(start_error)?);
    let pool = Pool::new(Arc::clone(&store), PoolOptions::default()).map_err(start_error)?;
    pool.run_blocking(|store| store.sweep(SystemTime::now())).await.map_err(start_error)?;
    let (archives, packs) = open_caches(config, &pool).await.map_err(start_error)?;
    let program = match &config.hook_program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let hooks = install_hooks(store.root(), &program.canonicalize()?).map_err(start_error)?;
    let socket = HookSocket::bind(store.root()).map_err(start_error)?;
    let sessions = socket.sessions(config.max_push_refs);
    let relay = Relay::new(db.clone(), clock.clone(), subscribers);
    let refs = Refs::new(Arc::clone(&store), pool.clone(), Arc::clone(&git)).with_cache_bytes(config.ref_table_bytes);
    let backlogs = Backlogs::new(config.maintenance.options().consolidation_limits());
    let updater = RefUpdater::new(
        db.clone(),
        clock.clone(),
        relay.clone(),
        Arc::clone(&store),
        pool.clone(),
        refs.clone(),
        backlogs.clone(),
    );
    let protection = BranchProtection::new(db.clone(), pool.clone());
    let (limiters, queue_timeout) = (Limiters::new(&config.limits.limiters.options()), config.limits.limiters.timeout);
    let delta_memory = Arc::new(MemoryBudget::new(config.limits.process.delta_memory_bytes, queue_timeout));
    let merges = Merges::default();
    let push_limits = PushLimits {
        bytes: config.max_push_bytes,
        objects: config.max_push_objects,
        refs: config.max_push_refs,
        pack: config.packs.limits(),
    };
    let transfers = Transfers { limits: config.limits.transfers(), life: life.clone() };
    let state = AppState::new(Parts {
        repositories: RepositoryTable::new(db.clone()),
        caches: RepositoryCaches {
            epochs: Cache::new(MAX_CACHED_EPOCHS),
            pool: pool.clone(),
            refs: refs.clone(),
            packs: packs.clone(),
            archives: archives.clone(),
            path_logs: PathLogCache::default(),
            tree_commits: CommitPathCache::default(),
            blames: CommitPathCache::default(),
            merges: merges.clone(),
        },
        pushes: PushService {
            updater: updater.clone(),
            protection: protection.clone(),
            refs: refs.clone(),
            pool: pool.clone(),
            sessions: sessions.clone(),
            limits: push_limits,
            authorizer: authorizer.clone(),
        },
        fetches: FetchService {
            git: Arc::clone(&git),
            store: Arc::clone(&store),
            pool: pool.clone(),
            limiter: Arc::clone(&limiters.pack),
            delta_memory: Arc::clone(&delta_memory),
            cache: packs,
            large: large_repositories(),
            life: life.clone(),
        },
        archives: ArchiveService {
            git: Arc::clone(&git),
            store: Arc::clone(&store),
            pool: pool.clone(),
            limiter: Arc::clone(&limiters.archive),
            diff_limiter: Arc::clone(&limiters.diff),
            delta_memory,
            cache: archives,
            life: life.clone(),
        },
        copies: CopyService {
            git: Arc::clone(&git),
            store: Arc::clone(&store),
            pool: pool.clone(),
            refs: refs.clone(),
            limiter: Arc::clone(&limiters.copy),
            life: life.clone(),
        },
        stages: StageService {
            git: Arc::clone(&git),
            store: Arc::clone(&store),
            pool: pool.clone(),
            refs: refs.clone(),
            limiter: Arc::clone(&limiters.copy),
            limits: push_limits,
            life: life.clone(),
        },
        maintenance: Arc::new(MaintenanceService::new(
            MaintenanceParts {
                clock: clock.clone(),
                db: db.clone(),
                store: Arc::clone(&store),
                pool: pool.clone(),
                git: Arc::clone(&git),
                updater: updater.clone(),
                backlogs: backlogs.clone(),
                sessions: sessions.clone(),
            },
            config.maintenance.options(),
            transfers.limits.total,
        )),
        imports: ImportService::new(
            ImportParts {
                clock: clock.clone(),
                db: db.clone(),
                life: life.clone(),
                store: Arc::clone(&store),
                pool: pool.clone(),
                git: Arc::clone(&git),
                refs: refs.clone(),
                updater: updater.clone(),
                sessions: sessions.clone(),
                hooks: hooks.clone(),
                client: Client::new(config.outbound.policy()),
                sealer,
                authorizer: authorizer.clone(),
            },
            config.imports.options(config.packs.limits()),
        ),
        languages: LanguageService::new(LanguageParts {
            db: db.clone(),
            store: store.name().to_owned(),
            pool: pool.clone(),
            refs: refs.clone(),
            updater: updater.clone(),
        }),
        merges,
        verifier: Arc::clone(&trust.verifier),
        permits: trust.service_verifier.clone(),
        max_file_bytes: config.limits.max_file_bytes,
        clock: clock.clone(),
        life: life.clone(),
        disk_space: DiskSpaceMeter::default(),
        store,
        statuses: StatusTable::new(db.clone()),
        db,
        authorizer,
        pool,
        git,
        refs,
        updater,
        protection,
        limiters,
        backlogs,
        transfers,
        sessions,
        hooks,
    });
    Ok((state, socket, relay))
}

/// Checks that a usable git is installed: that of the setting, or the one in the usual folders.
///
/// # Errors
/// When git is missing, too old, or does not respond. The text says how to get one.
pub async fn check_git(program: Option<&Path>) -> Result<(), StartError> {
    find_program(program).await.map(drop).map_err(git_error)
}

async fn find_git(config: &Config) -> Result<Git, GitError> {
    if !sees_children() {
        tracing::warn!(
            "the kernel does not list child processes, so the CPU time of pushes is limited per process only"
        );
    }
    let options = config.limits.process.git_options();
    let (program, max_push_bytes) = (config.git_program.clone(), config.max_push_bytes);
    let git = Git::find(GitOptions { program, max_push_bytes, ..options }).await?;
    if !git.limits_trees() {
        tracing::warn!("git before 2.43 does not limit the depth of trees and the lengths of names in a push");
    }
    Ok(git)
}

async fn open_caches(config: &Config, pool: &Pool) -> Result<(ArchiveCache, PackCache), GitError> {
    let limits = ArchiveLimits { bytes: config.max_archive_bytes, ..ArchiveLimits::default() };
    let (archive_bytes, pack_bytes) = (config.archive_cache_bytes, config.pack_cache_bytes);
    pool.run_blocking(move |store| {
        let archives = ArchiveCache::open(&store.cache(), limits, archive_bytes)?;
        Ok((archives, PackCache::open(&store.cache(), pack_bytes)?))
    })
    .await
}

/// Converts an error of finding git. One about the program says how to get another one.
fn git_error(error: GitError) -> StartError {
    match error {
        GitError::Program(reason) => StartError::Other(format!("{reason}; {GIT_HINT}")),
        error => start_error(error),
    }
}

/// Converts an error for the launcher, with its cause in the text.
fn start_error(error: impl Into<RpcError>) -> StartError {
    match error.into() {
        RpcError::Store(error) => error.into(),
        // Their text already includes the source.
        failure => StartError::Other(failure.to_string()),
    }
}
