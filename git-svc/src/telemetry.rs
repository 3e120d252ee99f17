//! The metrics of git-svc, and the loop that measures its store.

use std::time::Duration;

use ferrite_core::{Lifecycle, telemetry::Metric};

use crate::{rpc_error::RpcError, state::AppState};

const STORE_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) const METRICS: &[Metric] = &[
    // requests
    Metric::counter("ferrite_git_fetches_total", &[], "Fetches and clones."),
    Metric::counter("ferrite_git_ls_refs_total", &[], "Lists of refs that were answered without a process."),
    Metric::counter("ferrite_git_pushes_total", &[], "Pushes."),
    Metric::counter(
        "ferrite_git_pushes_refused_total",
        &["limit"],
        "Pushes that a limit on their pack or options ended.",
    ),
    Metric::counter("ferrite_git_pushed_refs_total", &["result"], "Refs of pushes."),
    Metric::counter("ferrite_git_puts_total", &[], "Commits by the API."),
    Metric::counter("ferrite_git_archives_total", &["by"], "Archives that were made."),
    Metric::counter("ferrite_git_asset_uploads_total", &[], "Files of releases that were taken in."),
    Metric::counter("ferrite_git_misrouted_requests_total", &[], "Requests for another store."),
    Metric::counter(
        "ferrite_git_refused_total",
        &["gate"],
        "Requests that waited too long for a turn, or in too long a line.",
    ),
    Metric::gauge("ferrite_git_admission_running", &["gate"], "Turns that are taken."),
    Metric::gauge("ferrite_git_admission_waiting", &["gate"], "Requests that wait for a turn."),
    // processes
    Metric::counter("ferrite_git_processes_total", &["command"], "Git processes that were started."),
    Metric::gauge("ferrite_git_processes_running", &["command"], "Git processes that run."),
    Metric::histogram(
        "ferrite_git_process_duration_seconds",
        &["command"],
        "Time from the start of a git process to its end.",
    ),
    Metric::counter(
        "ferrite_git_processes_killed_total",
        &["command"],
        "Git processes that were ended before they were done.",
    ),
    Metric::counter(
        "ferrite_git_processes_limited_total",
        &["command"],
        "Git processes that used up their processor time.",
    ),
    // caches
    Metric::counter("ferrite_git_pack_cache_total", &["result"], "Packs by their way to the client."),
    Metric::gauge("ferrite_git_pack_cache_bytes", &[], "Bytes of packs that are kept."),
    Metric::gauge("ferrite_git_archive_cache_bytes", &[], "Bytes of archives that are kept."),
    Metric::counter("ferrite_git_archive_cache_lookups_total", &["result"], "Archives that were asked for."),
    Metric::counter("ferrite_git_ref_table_lookups_total", &["result"], "Tables of refs that were asked for."),
    Metric::counter("ferrite_git_ref_tables_loaded_total", &[], "Tables of refs that were read from the disk."),
    Metric::counter("ferrite_git_path_log_lookups_total", &["result"], "Commits of paths that were asked for."),
    // store
    Metric::gauge("ferrite_git_store_free_bytes", &[], "Bytes of the disk that may still be used."),
    Metric::gauge("ferrite_git_store_size_bytes", &[], "Bytes of the disk in all."),
    Metric::gauge("ferrite_git_store_repositories", &[], "Repositories of the store, wikis included."),
    Metric::gauge("ferrite_git_store_writable", &[], "1 if a file can be made in the store."),
    Metric::counter("ferrite_git_store_full_total", &[], "Writes that the full disk refused."),
    // maintenance
    Metric::gauge("ferrite_git_upkeep_queue", &[], "Repositories that wait for maintenance."),
    Metric::counter("ferrite_git_upkeep_jobs_total", &["kind", "outcome"], "Maintenance jobs."),
    Metric::histogram("ferrite_git_upkeep_duration_seconds", &["kind"], "Duration of a maintenance job."),
    Metric::gauge("ferrite_git_consolidation_queue", &[], "Repositories that wait to be consolidated."),
    Metric::counter(
        "ferrite_git_write_waits_total",
        &["outcome"],
        "Writes that waited because their repository had too many packs or loose objects.",
    ),
    Metric::histogram("ferrite_git_write_wait_seconds", &[], "Time of such a wait."),
    Metric::counter("ferrite_git_fsck_total", &["result"], "Checks of repositories."),
    Metric::gauge("ferrite_git_broken_repositories", &[], "Repositories whose last check found something missing."),
    // other hosts
    Metric::counter("ferrite_git_migrations_total", &["result"], "Imports that ended."),
    Metric::gauge("ferrite_git_migrations_waiting", &[], "Imports that have not ended."),
    Metric::counter("ferrite_git_mirror_syncs_total", &["result"], "Syncs of mirrors."),
    Metric::gauge("ferrite_git_mirrors_due", &[], "Mirrors that are due, running ones included."),
    Metric::gauge("ferrite_git_mirror_syncs_running", &[], "Syncs of mirrors that run."),
    Metric::gauge("ferrite_git_extra_jobs", &["kind"], "Imports and syncs that left their places to other users."),
    Metric::counter(
        "ferrite_git_remote_received_bytes_total",
        &[],
        "Bytes that fetches have received from other hosts.",
    ),
];

pub(crate) async fn measure_store(state: AppState, life: Lifecycle) {
    while !life.is_stopping() {
        if let Err(error) = measure(&state).await {
            tracing::warn!(%error, "cannot measure the store");
        }
        life.pause(STORE_INTERVAL).await;
    }
}

async fn measure(state: &AppState) -> Result<(), RpcError> {
    let space = state.disk_space.measure(&state.store).await?;
    metrics::gauge!("ferrite_git_store_free_bytes").set(space.free_bytes as f64);
    metrics::gauge!("ferrite_git_store_size_bytes").set(space.total_bytes as f64);
    metrics::gauge!("ferrite_git_store_writable").set(f64::from(u8::from(space.is_writable)));
    let repositories = state.repositories.count(state.store.name()).await?;
    metrics::gauge!("ferrite_git_store_repositories").set(repositories as f64);
    Ok(())
}
