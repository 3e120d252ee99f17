//! Time limits of tests with hostile texts.

use std::time::{Duration, Instant};

/// Runs `work`. `text` names the case.
///
/// # Panics
/// If `work` takes more than `limit` of the processor, whatever else the machine does.
pub fn assert_within<T>(limit: Duration, text: &str, work: impl FnOnce() -> T) -> T {
    let (result, taken) = timed(work);
    let beginning: String = text.chars().take(20).collect();
    assert!(taken < limit, "{beginning:?} took {taken:?}");
    result
}

/// Runs `work` and returns its result with the time that it took of the processor, whatever else the machine does.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let result = work();
    let taken = match (cpu_before, cpu_time()) {
        (Some(before), Some(after)) => after - before,
        _ => started.elapsed(),
    };
    (result, taken)
}

/// Processor time of this thread, where the system tells it.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
