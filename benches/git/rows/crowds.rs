//! Many clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::task::JoinSet;

use crate::Failure;
use crate::report::{Figure, Row, digits, median, mib, shown};
use crate::server::{USER, bytes_of};
use crate::site::{LARGE, Site};
use crate::usage::{Peak, Private, Sampler, private};
use crate::wire::{self, Ending, clone_request};

/// Clients that read slowly.
const READERS: u32 = 8;
/// So much has to arrive before a reader counts as served: more than an error would be.
const SERVED: u64 = 64 << 10;

/// Small calls with nobody else there, and while clones are drained slowly.
pub(super) async fn slow_readers(site: &Site) -> Result<Vec<Row>, Failure> {
    let body = clone_request(&site.large.tips);
    // The pack is made before it is measured.
    for client in 0..2 {
        wire::clone(site.ferrite.url(LARGE), body.clone(), client).await;
    }
    site.ferrite.processes().settled().await;
    let idle = small_calls(site).await?;
    let counts: Vec<_> = (0..READERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut readers = JoinSet::new();
    for (client, count) in (0..).zip(&counts) {
        let (authority, path) = (site.ferrite.authority().to_owned(), format!("/{USER}/{LARGE}.git"));
        readers.spawn(wire::slow_reader(authority, path, body.clone(), client, Arc::clone(count)));
    }
    let served = || counts.iter().filter(|count| count.load(Ordering::Relaxed) > SERVED).count();
    let begin = Instant::now();
    while served() < counts.len() && begin.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let busy = small_calls(site).await?;
    let served = served();
    readers.shutdown().await;
    site.ferrite.processes().settled().await;
    let case = format!("small call while {READERS} slow readers drain clones, against idle: median wall");
    let busy = Figure::ms(busy, "").with(&format!(", {served} of {READERS} readers served"));
    Ok(vec![Row::ratio(&case, &busy, &Figure::ms(idle, "ours, idle: "), 3.0)])
}

/// The median of a call that reads a file of the same repository.
async fn small_calls(site: &Site) -> Result<f64, Failure> {
    let path = site.ferrite.repo(LARGE, &format!("/contents/{}", site.large.file));
    let mut times = Vec::new();
    for _ in 0..site.scale.calls * 10 {
        let begin = Instant::now();
        bytes_of(site.ferrite.api(Method::GET, &path), 200).await?;
        times.push(begin.elapsed());
    }
    Ok(median(times.into_iter()))
}

/// How a number of clones went that all began at once.
struct Crowd {
    whole: usize,
    busy: usize,
    failed: Vec<String>,
    idle: Private,
    peak: Peak,
    wall: Duration,
}

async fn crowd(site: &Site, clients: u32) -> Result<Crowd, Failure> {
    site.ferrite.processes().settled().await;
    let process = site.ferrite.git_svc();
    let idle = private(process).ok_or("git-svc is gone")?;
    let sampler = Sampler::start(process, site.ferrite.processes().root());
    let begin = Instant::now();
    let body = clone_request(&site.large.tips);
    let mut clones = JoinSet::new();
    for client in 0..clients {
        clones.spawn(wire::clone(site.ferrite.url(LARGE), body.clone(), client));
    }
    let endings = clones.join_all().await;
    let mut crowd = Crowd { whole: 0, busy: 0, failed: Vec::new(), idle, peak: sampler.peak(), wall: begin.elapsed() };
    for ending in endings {
        match ending {
            Ending::Whole(_) => crowd.whole += 1,
            Ending::Busy => crowd.busy += 1,
            Ending::Failed(why) => crowd.failed.push(why),
        }
    }
    if let Some(why) = crowd.failed.first() {
        eprintln!("{} clones failed, the first: {why}", crowd.failed.len());
    }
    Ok(crowd)
}

impl Crowd {
    fn shown(&self) -> String {
        format!(
            "{} whole, {} told 503, {} failed; git-svc {} idle, peak {}; all processes {} MiB; {:.1} s",
            self.whole,
            self.busy,
            self.failed.len(),
            shown(self.idle),
            shown(self.peak.own),
            digits(mib(self.peak.tree)),
            self.wall.as_secs_f64()
        )
    }
}

/// Far more clones at once than there are turns.
pub(super) async fn parallel(site: &Site) -> Result<Vec<Row>, Failure> {
    let crowd = crowd(site, site.scale.clones).await?;
    let holds = crowd.failed.is_empty() && crowd.whole > 0 && site.ferrite.is_alive();
    let value = if site.ferrite.is_alive() { "git-svc lives" } else { "git-svc died" };
    let case = format!("{} clones at once", site.scale.clones);
    Ok(vec![Row::limit(&case, crowd.shown(), value.to_owned(), "no error but 503, git-svc alive", holds)])
}

/// The memory of git-svc itself while many clone.
pub(super) async fn memory(site: &Site) -> Result<Vec<Row>, Failure> {
    let crowd = crowd(site, site.scale.memory_clones).await?;
    let case = format!("{} clones at once: peak private memory of git-svc, without children", site.scale.memory_clones);
    let peak = mib(crowd.peak.own.all);
    let holds = peak < 150.0 && crowd.failed.is_empty();
    Ok(vec![Row::limit(&case, crowd.shown(), format!("{} MiB", digits(peak)), "< 150 MiB", holds)])
}
