//! Time limits of tests with hostile texts.

use std::time::{Duration, Instant};

/// Asserts that `work` takes less than `limit` of CPU time. `text` names the case.
pub fn assert_within<T>(limit: Duration, text: &str, work: impl FnOnce() -> T) -> T {
    let (result, taken) = timed(work);
    let beginning: String = text.chars().take(20).collect();
    assert!(taken < limit, "{beginning:?} took {taken:?}");
    result
}

/// Runs `work` and measures its CPU time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let result = work();
    let taken = match (cpu_before, cpu_time()) {
        (Some(before), Some(after)) => after - before,
        _ => started.elapsed(),
    };
    (result, taken)
}

/// CPU time of this thread, where the system provides it.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
