//! CPU time of the processes of an installation.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::installation::Installation;
use crate::processes::{stat, with_children};
use crate::{Failure, milliseconds};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Processes count as idle after this time without CPU use.
const IDLE_AFTER: Duration = Duration::from_millis(300);
/// The measurement continues after this time even if they are not idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Name of the database server's processes.
const POSTGRES: &str = "PostgreSQL";

/// Names by process id.
type Processes = BTreeMap<u32, String>;

/// Measures all processes of an installation and of its databases.
pub struct CpuMeter {
    processes: Processes,
    before: BTreeMap<u32, Duration>,
}

/// CPU times by process name.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(BTreeMap<String, Duration>);

impl CpuMeter {
    /// Waits until the processes are idle, and starts.
    pub async fn start(installation: &Installation) -> Result<Self, Failure> {
        let mut processes = with_children(&installation.process_ids());
        let server = installation.databases.server_processes().await?;
        processes.extend(server.into_iter().map(|id| (id, POSTGRES.to_owned())));
        let before = settled(&processes).await;
        Ok(Self { processes, before })
    }

    /// Waits until the processes are idle again, and adds their CPU times since the start to
    /// `times`.
    pub async fn finish(self, times: &mut CpuTimes) {
        for (id, time) in settled(&self.processes).await {
            let before = self.before.get(&id).copied().unwrap_or(time);
            *times.0.entry(self.processes[&id].clone()).or_default() += time.saturating_sub(before);
        }
    }
}

impl CpuTimes {
    pub fn each(&self, count: u32) -> f64 {
        let ours = self.0.iter().filter(|(name, _)| *name != POSTGRES).map(|(_, time)| *time).sum();
        milliseconds(ours, count)
    }

    pub fn by_name(&self) -> Vec<(&str, Duration)> {
        self.0.iter().map(|(name, time)| (name.as_str(), *time)).collect()
    }

    /// CPU time per operation by process, as text.
    pub fn by_process(&self, count: u32) -> String {
        let parts: Vec<_> =
            self.by_name().into_iter().map(|(name, time)| format!("{name} {:.2}", milliseconds(time, count))).collect();
        parts.join(", ")
    }
}

fn read(processes: &Processes) -> BTreeMap<u32, Duration> {
    processes.keys().filter_map(|id| Some((*id, stat(*id)?.cpu))).collect()
}

/// Waits until the processes are idle and returns their CPU times so far.
async fn settled(processes: &Processes) -> BTreeMap<u32, Duration> {
    let (begin, mut since, mut last) = (Instant::now(), Instant::now(), read(processes));
    while since.elapsed() < IDLE_AFTER && begin.elapsed() < SETTLE_TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = read(processes);
        if now != last {
            (since, last) = (Instant::now(), now);
        }
    }
    last
}
