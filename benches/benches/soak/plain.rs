//! Plain git on freshly packed copies of the repositories: during the load, and right after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_benches::history::MAIN;
use ferrite_benches::{Failure, git, percentile_ms};
use tokio::task::JoinSet;

use crate::record::{Kind, Record};
use crate::shape::Load;
use crate::site::Site;

/// Clones and archives per client.
const ROUNDS: usize = 8;
const TEST_ROUNDS: usize = 1;

/// Medians of plain git, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// Instead of the clients that clone and create archives, beside all others.
    pub(crate) in_load: f64,
    /// With one client.
    pub(crate) alone: f64,
    /// With as many concurrent clients as in the load.
    pub(crate) at_once: f64,
    /// The same for the initial history.
    pub(crate) before: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    pub(crate) clone: Plain,
    pub(crate) archive: Plain,
}

#[derive(Clone, Copy)]
enum Act {
    Clone,
    Archive,
}

/// Clones a copy into a folder, removes the folder, and returns the time of the clone.
pub(crate) async fn clone(copy: &Path, folder: &Path) -> Result<Duration, Failure> {
    let (url, target) = (format!("file://{}", copy.display()), folder.display().to_string());
    let begin = Instant::now();
    git::run(Path::new("/"), &["clone", "--quiet", &url, &target]).await?;
    let time = begin.elapsed();
    tokio::fs::remove_dir_all(folder).await?;
    Ok(time)
}

/// Creates an archive of a copy in a file, removes the file, and returns the time of the archive.
pub(crate) async fn archive(copy: &Path, file: &Path) -> Result<Duration, Failure> {
    let begin = Instant::now();
    git::run(copy, &["archive", "--format=tar.gz", "--output", &file.display().to_string(), MAIN]).await?;
    let time = begin.elapsed();
    tokio::fs::remove_file(file).await?;
    Ok(time)
}

/// Median over `clients` concurrent clients.
async fn median(what: Act, copies: &Arc<Vec<PathBuf>>, clients: usize, rounds: usize) -> Result<f64, Failure> {
    let mut running = JoinSet::new();
    for client in 0..clients {
        let (copies, mut times) = (Arc::clone(copies), Vec::new());
        running.spawn(async move {
            for round in 0..rounds {
                let copy = &copies[(client + round) % copies.len()];
                let target = copy.with_extension(format!("client-{client}"));
                times.push(match what {
                    Act::Clone => clone(copy, &target).await?,
                    Act::Archive => archive(copy, &target).await?,
                });
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = running.join_next().await {
        times.extend(ended??);
    }
    times.sort_unstable();
    Ok(percentile_ms(&times, 50))
}

/// Measured copies: of the repositories, and of the initial history.
struct Copies {
    after: Arc<Vec<PathBuf>>,
    before: Arc<Vec<PathBuf>>,
    rounds: usize,
}

impl Copies {
    async fn measure(&self, what: Act, clients: usize, in_load: f64) -> Result<Plain, Failure> {
        let (clients, rounds) = (clients.max(1), self.rounds);
        // The first round reads the files of the copies into memory.
        for copies in [&self.before, &self.after] {
            median(what, copies, 1, copies.len()).await?;
        }
        let before = median(what, &self.before, clients, rounds).await?;
        let alone = median(what, &self.after, 1, rounds).await?;
        Ok(Plain { in_load, alone, at_once: median(what, &self.after, clients, rounds).await?, before })
    }
}

/// Measures git on the copies. The installation has stopped.
pub(crate) async fn measure(site: &Site, load: &Load, record: &Record, is_full: bool) -> Result<Baseline, Failure> {
    let copies = Copies {
        after: Arc::new(site.copies().to_vec()),
        before: Arc::new(vec![site.copy_of_history().await?]),
        rounds: if is_full { ROUNDS } else { TEST_ROUNDS },
    };
    let in_load = |kind| record.plain_median_ms(kind);
    Ok(Baseline {
        clone: copies.measure(Act::Clone, load.cloners, in_load(Kind::Clone)).await?,
        archive: copies.measure(Act::Archive, load.readers, in_load(Kind::Archive)).await?,
    })
}
