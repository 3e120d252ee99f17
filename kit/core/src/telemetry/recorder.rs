//! The Prometheus recorder, help texts, and metrics of the process.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use super::InitError;
use super::catalog::METRICS;
use super::metric::{Metric, MetricKind};

const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Buckets for requests and jobs.
const BUCKETS_SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
/// Buckets for durations that are mostly below a millisecond.
const FINE_BUCKETS_SECONDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];
const FINE_METRICS: [&str; 2] = ["ferrite_db_", "ferrite_redis_"];
/// Buckets for background work, which can take an hour.
const COARSE_BUCKETS_SECONDS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
const COARSE_METRICS: [&str; 2] = ["ferrite_git_process_duration_seconds", "ferrite_git_upkeep_duration_seconds"];
/// The commit that the program was built from, if the build sets it.
const COMMIT: &str = match option_env!("FERRITE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Installs the recorder, whose metrics all have the label `role`. A second call in the same
/// process returns a handle without metrics.
pub(super) fn install(role: &'static str) -> Result<PrometheusHandle, InitError> {
    let mut builder = PrometheusBuilder::new().add_global_label("role", role).set_buckets(&BUCKETS_SECONDS)?;
    for prefix in FINE_METRICS {
        builder = builder.set_buckets_for_metric(Matcher::Prefix(prefix.to_owned()), &FINE_BUCKETS_SECONDS)?;
    }
    for prefix in COARSE_METRICS {
        builder = builder.set_buckets_for_metric(Matcher::Prefix(prefix.to_owned()), &COARSE_BUCKETS_SECONDS)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_ok() {
        start_upkeep(handle.clone())?;
        describe(METRICS);
        metrics::gauge!("ferrite_build_info", "version" => env!("CARGO_PKG_VERSION"), "commit" => COMMIT).set(1.0);
        process().describe();
        collect_process_metrics();
    }
    Ok(handle)
}

/// Starts a thread that folds recorded durations into their buckets. Otherwise they would pile up
/// until the next scrape.
fn start_upkeep(handle: PrometheusHandle) -> std::io::Result<()> {
    let work = move || {
        loop {
            std::thread::sleep(UPKEEP_INTERVAL);
            handle.run_upkeep();
        }
    };
    std::thread::Builder::new().name("metrics upkeep".into()).spawn(work).map(drop)
}

/// Sets the help texts, and initializes metrics without labels to zero, so that they show no gap.
pub fn describe(metrics: &[Metric]) {
    for metric in metrics {
        let Metric { name, kind, labels, help } = *metric;
        match kind {
            MetricKind::Counter => metrics::describe_counter!(name, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, help),
            MetricKind::Histogram => metrics::describe_histogram!(name, help),
        }
        if !labels.is_empty() {
            continue;
        }
        match kind {
            MetricKind::Counter => metrics::counter!(name).increment(0),
            MetricKind::Gauge => metrics::gauge!(name).increment(0.0),
            MetricKind::Histogram => drop(metrics::histogram!(name)),
        }
    }
}

/// Measures memory, CPU time, files and threads of this process. Called before each scrape.
pub fn collect_process_metrics() {
    process().collect();
}

fn process() -> &'static Collector {
    static COLLECTOR: OnceLock<Collector> = OnceLock::new();
    COLLECTOR.get_or_init(Collector::default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_by_the_conventions_of_prometheus() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        for metric in METRICS {
            let name = metric.name;
            assert!(name.starts_with("ferrite_") && !metric.help.is_empty(), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            assert!(metric.kind != MetricKind::Histogram || name.ends_with("_seconds"), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }
}
