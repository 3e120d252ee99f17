//! Shared code of the benches: an installation of the release binary, its databases and processes,
//! git, and the servers it connects to.
//!
//! Items for a single bench belong to that bench. Benches of installations measure
//! `target/release/ferrite`, which `make` builds first, or the binary in FERRITE_BENCH_BINARY.
//! Under `cargo test` they use `target/debug/ferrite`.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod cpu;
pub mod databases;
pub mod git;
pub mod history;
pub mod installation;
pub mod load;
pub mod memory;
pub mod processes;
pub mod receiver;
pub mod remote;
pub mod rounds;

/// The error type of benches.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a bench on a new multi-threaded runtime.
pub fn block_on<T>(bench: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(bench)
}

/// Resolves a user's path. Cargo runs benches in the folder of their package; relative paths start
/// at the root of the workspace.
pub fn from_root(path: &Path) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join(path)
}

/// Mean time of `count` operations.
pub fn milliseconds(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e3 / f64::from(count.max(1))
}

/// The time within which `percent` of the operations ended; zero if there are none. `times` is
/// ascending.
pub fn percentile(times: &[Duration], percent: usize) -> Duration {
    let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(index).copied().unwrap_or_default()
}

/// Like [`percentile`], in milliseconds.
pub fn percentile_ms(times: &[Duration], percent: usize) -> f64 {
    milliseconds(percentile(times, percent), 1)
}
