//! The metrics of git-svc, and the loop that measures its store.

use std::time::Duration;

use ferrite_core::{Lifecycle, telemetry::Metric};

use crate::{rpc_error::RpcError, state::AppState};

const STORE_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) const METRICS: &[Metric] = &[
    // requests
    Metric::counter("ferrite_git_fetches_total", &[], "Fetches and clones."),
    Metric::counter("ferrite_git_ls_refs_total", &[], "Ref lists answered without a git process."),
    Metric::counter("ferrite_git_pushes_total", &[], "Pushes."),
    Metric::counter(
        "ferrite_git_pushes_refused_total",
        &["limit"],
        "Pushes rejected by a limit on their pack or options.",
    ),
    Metric::counter("ferrite_git_pushed_refs_total", &["result"], "Pushed refs."),
    Metric::counter("ferrite_git_puts_total", &[], "Commits made through the API."),
    Metric::counter("ferrite_git_merges_total", &["result"], "Merges of pull requests."),
    Metric::counter("ferrite_git_archives_total", &["by"], "Archives made."),
    Metric::counter("ferrite_git_diffs_total", &["result"], "Diffs made by git, for one commit or a page of them."),
    Metric::counter("ferrite_git_asset_uploads_total", &[], "Uploaded release assets."),
    Metric::counter("ferrite_git_misrouted_requests_total", &[], "Requests meant for another store."),
    Metric::counter(
        "ferrite_git_refused_total",
        &["gate"],
        "Requests rejected because they waited too long or the queue was full.",
    ),
    Metric::gauge("ferrite_git_admission_running", &["gate"], "Requests that hold a permit."),
    Metric::gauge("ferrite_git_admission_waiting", &["gate"], "Requests waiting for a permit."),
    // processes
    Metric::counter("ferrite_git_processes_total", &["command"], "Started git processes."),
    Metric::gauge("ferrite_git_processes_running", &["command"], "Running git processes."),
    Metric::histogram("ferrite_git_process_duration_seconds", &["command"], "Run time of a git process."),
    Metric::counter("ferrite_git_processes_killed_total", &["command"], "Git processes killed before they were done."),
    Metric::counter("ferrite_git_processes_limited_total", &["command"], "Git processes that used up their CPU time."),
    // caches
    Metric::counter("ferrite_git_pack_cache_total", &["result"], "Packs sent, by cache result."),
    Metric::gauge("ferrite_git_pack_cache_bytes", &[], "Bytes of cached packs."),
    Metric::gauge("ferrite_git_archive_cache_bytes", &[], "Bytes of cached archives."),
    Metric::counter("ferrite_git_archive_cache_lookups_total", &["result"], "Lookups of archives in the cache."),
    Metric::counter("ferrite_git_ref_table_lookups_total", &["result"], "Lookups of ref tables in the cache."),
    Metric::counter("ferrite_git_ref_tables_loaded_total", &[], "Ref tables read from disk."),
    Metric::counter("ferrite_git_path_log_lookups_total", &["result"], "Lookups of path histories in the cache."),
    // store
    Metric::gauge("ferrite_git_store_free_bytes", &[], "Available bytes on the disk."),
    Metric::gauge("ferrite_git_store_size_bytes", &[], "Total bytes of the disk."),
    Metric::gauge("ferrite_git_store_repositories", &[], "Repositories in the store, including wikis."),
    Metric::gauge("ferrite_git_store_writable", &[], "1 if a file can be created in the store."),
    Metric::counter("ferrite_git_store_full_total", &[], "Writes rejected because the disk was full."),
    // maintenance
    Metric::gauge("ferrite_git_upkeep_queue", &[], "Repositories waiting for maintenance."),
    Metric::counter("ferrite_git_upkeep_jobs_total", &["kind", "outcome"], "Maintenance jobs."),
    Metric::histogram("ferrite_git_upkeep_duration_seconds", &["kind"], "Duration of a maintenance job."),
    Metric::gauge("ferrite_git_consolidation_queue", &[], "Repositories waiting for consolidation."),
    Metric::counter(
        "ferrite_git_write_waits_total",
        &["outcome"],
        "Writes that waited because their repository had too many packs or loose objects.",
    ),
    Metric::histogram("ferrite_git_write_wait_seconds", &[], "Duration of such a wait."),
    Metric::counter("ferrite_git_fsck_total", &["result"], "Checks of repositories."),
    Metric::gauge("ferrite_git_broken_repositories", &[], "Repositories whose last check found objects missing."),
    // other hosts
    Metric::counter("ferrite_git_migrations_total", &["result"], "Finished imports."),
    Metric::gauge("ferrite_git_migrations_waiting", &[], "Unfinished imports."),
    Metric::counter("ferrite_git_mirror_syncs_total", &["result"], "Syncs of mirrors."),
    Metric::gauge("ferrite_git_mirrors_due", &[], "Mirrors due for a sync, including running ones."),
    Metric::gauge("ferrite_git_mirror_syncs_running", &[], "Running syncs of mirrors."),
    Metric::gauge("ferrite_git_extra_jobs", &["kind"], "Imports and syncs that gave up their slot to other users."),
    Metric::counter("ferrite_git_remote_received_bytes_total", &[], "Bytes received from other hosts."),
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
