//! Many concurrent clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::installation::{USER, bytes_of};
use ferrite_benches::memory::{Private, private, proportional};
use reqwest::Method;
use tokio::task::JoinSet;

use crate::memory::{Peak, Sampler};
use crate::report::{Figure, Row, digits, median, mib, shown};
use crate::servers::{LARGE, Servers};
use crate::wire::{self, Ending, clone_request};

/// Clients that read slowly.
const SLOW_READERS: u32 = 8;
/// A reader counts as served after this many bytes, more than the body of an error.
const SERVED_BYTES: u64 = 64 << 10;

/// Small calls without other clients, and while others read clones slowly.
pub(super) async fn slow_readers(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let body = clone_request(&servers.large.tips);
    // Fills the cache of packs before the measurement.
    for client in 0..2 {
        wire::clone(wire::client(client)?, servers.ferrite.url(LARGE), body.clone()).await;
    }
    servers.ferrite.processes().settled().await;
    let idle = small_calls(servers).await?;
    let counts: Vec<_> = (0..SLOW_READERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut readers = JoinSet::new();
    for (client, count) in (0..).zip(&counts) {
        let (authority, path) = (servers.ferrite.authority().to_owned(), format!("/{USER}/{LARGE}.git"));
        readers.spawn(wire::slow_reader(authority, path, body.clone(), client, Arc::clone(count)));
    }
    let served = || counts.iter().filter(|count| count.load(Ordering::Relaxed) > SERVED_BYTES).count();
    let begin = Instant::now();
    while served() < counts.len() && begin.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let busy = small_calls(servers).await?;
    let served = served();
    readers.shutdown().await;
    servers.ferrite.processes().settled().await;
    let case = format!("small call while {SLOW_READERS} slow readers drain clones, against idle: median wall");
    let busy = Figure::ms(busy, "").with(&format!(", {served} of {SLOW_READERS} readers served"));
    Ok(vec![Row::ratio(&case, &busy, &Figure::ms(idle, "ours, idle: "), 3.0)])
}

/// Median time of calls that read a file of the same repository.
async fn small_calls(servers: &Servers) -> Result<f64, Failure> {
    let path = servers.ferrite.repo(LARGE, &format!("/contents/{}", servers.large.file));
    let mut times = Vec::new();
    for _ in 0..servers.scale.calls * 10 {
        let begin = Instant::now();
        bytes_of(servers.ferrite.api(Method::GET, &path), 200).await?;
        times.push(begin.elapsed());
    }
    Ok(median(times.into_iter()))
}

/// Results of concurrent clones.
struct CloneCounts {
    whole: usize,
    busy: usize,
    failed: Vec<String>,
    idle: Private,
    /// Memory of all processes before the clones.
    idle_tree: u64,
    peak: Peak,
    wall: Duration,
}

async fn clone_at_once(servers: &Servers, clients: u32) -> Result<CloneCounts, Failure> {
    servers.ferrite.processes().settled().await;
    let process = servers.ferrite.git_svc();
    let idle = private(process).ok_or("git-svc is gone")?;
    let idle_tree = proportional(servers.ferrite.processes().root());
    let body = clone_request(&servers.large.tips);
    // Created before the clones start, because each takes longer than a request.
    let clients = (0..clients).map(wire::client).collect::<Result<Vec<_>, _>>()?;
    let sampler = Sampler::start(process, servers.ferrite.processes().root());
    let begin = Instant::now();
    let mut clones = JoinSet::new();
    for client in clients {
        clones.spawn(wire::clone(client, servers.ferrite.url(LARGE), body.clone()));
    }
    let endings = clones.join_all().await;
    let (wall, peak) = (begin.elapsed(), sampler.peak());
    let mut counts = CloneCounts { whole: 0, busy: 0, failed: Vec::new(), idle, idle_tree, peak, wall };
    for ending in endings {
        match ending {
            Ending::Whole(_) => counts.whole += 1,
            Ending::Busy => counts.busy += 1,
            Ending::Failed(why) => counts.failed.push(why),
        }
    }
    if let Some(why) = counts.failed.first() {
        eprintln!("{} clones failed, the first: {why}", counts.failed.len());
    }
    Ok(counts)
}

impl CloneCounts {
    fn shown(&self) -> String {
        format!(
            "{} whole, {} got 503, {} failed; git-svc {} idle, peak {}; all processes {} MiB idle, peak {} MiB (PSS); {:.1} s",
            self.whole,
            self.busy,
            self.failed.len(),
            shown(self.idle),
            shown(self.peak.own),
            digits(mib(self.idle_tree)),
            digits(mib(self.peak.tree)),
            self.wall.as_secs_f64()
        )
    }
}

/// Many more concurrent clones than the limit on processes.
pub(super) async fn parallel(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for clients in &servers.scale.clones {
        let counts = clone_at_once(servers, *clients).await?;
        let holds = counts.busy == 0 && counts.failed.is_empty() && servers.ferrite.is_alive();
        let value = if servers.ferrite.is_alive() { "git-svc lives" } else { "git-svc died" };
        let case = format!("{clients} clones at once");
        rows.push(Row::limit(&case, counts.shown(), value.to_owned(), "all whole, git-svc alive", holds));
    }
    Ok(rows)
}

/// Memory of git-svc without its children during many clones.
pub(super) async fn memory(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let counts = clone_at_once(servers, servers.scale.memory_clones).await?;
    let case =
        format!("{} clones at once: peak private memory of git-svc, without children", servers.scale.memory_clones);
    let peak = mib(counts.peak.own.all);
    let holds = peak < 150.0 && counts.failed.is_empty();
    Ok(vec![Row::limit(&case, counts.shown(), format!("{} MiB", digits(peak)), "< 150 MiB", holds)])
}
