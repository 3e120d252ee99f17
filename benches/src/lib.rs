//! Shared code of the benches: an installation of the shipped binary, its databases and processes, git, and the servers that it calls.
//!
//! An item for one bench belongs to that bench. Benches of installations measure `target/release/ferrite`, which `make` builds first, or the
//! binary that FERRITE_BENCH_BINARY names; run by `cargo test`, they use `target/debug/ferrite`.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod cpu;
pub mod databases;
pub mod git;
pub mod history;
pub mod installation;
pub mod memory;
pub mod processes;
pub mod receiver;
pub mod remote;
pub mod rounds;

/// Why a bench failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a bench on a new runtime with several threads.
///
/// # Errors
/// If the bench fails, or there is no runtime.
pub fn block_on<T>(bench: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(bench)
}

/// Returns a path that the user named. Cargo runs benches in the folder of their package; a relative path is one from the root of the
/// workspace.
pub fn from_root(path: &Path) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join(path)
}

/// Returns the mean of `count` operations.
pub fn milliseconds(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e3 / f64::from(count.max(1))
}

/// Returns the time within which `percent` of the operations ended; zero without any. `times` is ascending.
pub fn percentile(times: &[Duration], percent: usize) -> Duration {
    let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(index).copied().unwrap_or_default()
}

/// As [`percentile`], in milliseconds.
pub fn percentile_ms(times: &[Duration], percent: usize) -> f64 {
    milliseconds(percentile(times, percent), 1)
}
