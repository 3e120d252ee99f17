//! Sets the readiness of a process by a probe.

use std::future::Future;
use std::time::Duration;

use crate::lifecycle::Lifecycle;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Consecutive failures after which a process is unready. One slow response is not an outage.
const MAX_PROBE_FAILURES: u32 = 3;
/// Failures at start (one every 50 ms) that are not logged.
const MAX_START_FAILURES: u32 = 60;

/// Keeps the readiness of the process up to date: ready after a success of `probe`, unready after
/// several failures in a row.
pub async fn watch_readiness<P, F, E>(probe: P, life: Lifecycle)
where
    P: Fn() -> F + Send + 'static,
    F: Future<Output = Result<(), E>> + Send,
    E: std::fmt::Display + Send,
{
    let mut failures = 0;
    let mut has_been_ready = false;
    while !life.is_stopping() {
        let outcome = tokio::time::timeout(PROBE_TIMEOUT, probe()).await;
        match outcome {
            Ok(Ok(())) => {
                failures = 0;
                has_been_ready = true;
                life.set_ready(true);
            }
            Ok(Err(error)) => {
                failures += 1;
                life.set_unready_reason(error.to_string());
                // At start other processes may still be starting, so failures are expected for a
                // while.
                if has_been_ready || failures > MAX_START_FAILURES {
                    tracing::warn!(%error, failures, "readiness probe failed");
                }
            }
            Err(_) => {
                failures += 1;
                life.set_unready_reason("readiness probe timed out");
                tracing::warn!(failures, "readiness probe timed out");
            }
        }
        if failures >= MAX_PROBE_FAILURES {
            life.set_ready(false);
        }
        // Probe more often until the first success, to start faster.
        let interval =
            if has_been_ready || failures >= MAX_START_FAILURES { PROBE_INTERVAL } else { PROBE_INTERVAL / 20 };
        life.pause(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::testing::eventually;

    #[tokio::test]
    async fn a_process_is_unready_after_three_probe_failures() {
        let life = Lifecycle::new(Duration::from_secs(2));
        let fails = Arc::new(AtomicBool::new(true));
        let (seen, probed) = (Arc::clone(&fails), life.clone());
        let probe = move || {
            let fails = seen.load(Ordering::SeqCst);
            async move { if fails { Err("down") } else { Ok(()) } }
        };
        life.spawn("probe", watch_readiness(probe, probed));
        tokio::time::sleep(PROBE_INTERVAL / 2).await;
        assert!(!life.is_ready(), "never before the first success");
        fails.store(false, Ordering::SeqCst);
        eventually("ready", || async { life.is_ready() }).await;
        fails.store(true, Ordering::SeqCst);
        tokio::time::sleep(PROBE_INTERVAL * 3 / 2).await;
        assert!(life.is_ready(), "one failure, or two");
        eventually("not ready", || async { !life.is_ready() }).await;
        life.stop();
        assert!(life.finished().await);
    }
}
