//! Time from an accepted push to the arrival of its webhook.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_benches::installation::{self, Installation};
use ferrite_benches::receiver::{Arrivals, Receiver};
use ferrite_benches::{Failure, percentile, percentile_ms};
use tokio::task::JoinSet;

use crate::Scale;
use crate::repositories::{Hook, Push, Repository, WorkTree};

/// Repositories with concurrent pushes, one writer each.
const WRITERS: u32 = 8;
/// Limit for the slowest of a hundred webhooks at half of the highest rate.
const P99_BAR: Duration = Duration::from_millis(250);
/// Time limit for the webhooks of a row.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(180);

/// The pushes of one row, and their start.
struct Pushes {
    begin: Instant,
    all: Vec<Push>,
}

impl Pushes {
    /// Accepted pushes per second.
    fn rate(&self) -> f64 {
        let last = self.all.iter().map(|push| push.accepted).max().unwrap_or(self.begin);
        per_second(self.all.len(), last - self.begin)
    }
}

/// The rate of one writer.
#[derive(Clone, Copy, Debug)]
enum WriteRate {
    /// One push per interval, this many times. A late one does not delay others.
    Every(Duration, u32),
    Unlimited(Duration),
}

impl WriteRate {
    /// Makes commits from `begin` on. The first one of a [`WriteRate::Every`] waits for `part` of
    /// the interval, so that writers alternate.
    async fn write(self, repository: &mut Repository, begin: Instant, part: f64) -> Result<Vec<Push>, Failure> {
        let mut all = Vec::new();
        match self {
            Self::Every(interval, count) => {
                let mut ticks = tokio::time::interval_at((begin + interval.mul_f64(part)).into(), interval);
                for _ in 0..count {
                    ticks.tick().await;
                    all.push(repository.commit().await?);
                }
            }
            Self::Unlimited(time) => {
                while begin.elapsed() < time {
                    all.push(repository.commit().await?);
                }
            }
        }
        Ok(all)
    }
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Prints the table of latencies.
pub(crate) async fn measure(
    database: &str,
    installation: &Arc<Installation>,
    folder: &Path,
    scale: Scale,
) -> Result<(), Failure> {
    let arrivals = Arrivals::default();
    let receiver = Receiver::start(&arrivals, false).await?;
    let mut repositories = Vec::new();
    let mut hooks = Vec::new();
    for number in 0..WRITERS {
        let repository = Repository::new(installation, &format!("latency-{number}")).await?;
        hooks.push(Hook::new(installation, &repository.hooks(), &receiver.url(), "push").await?);
        repositories.push(repository);
    }
    let mut tree = WorkTree::new(&repositories[0], folder.with_extension("clone")).await?;
    println!(
        "\n| database   | from accepted push to webhook  | pushes | a second | arrived a second | p50 ms   | p95      | p99      | max      |      |"
    );
    println!(
        "|------------|--------------------------------|-------:|---------:|-----------------:|---------:|---------:|---------:|---------:|------|"
    );
    let pushes = by_git(&mut tree, scale).await?;
    row(database, "git push", &pushes, &arrivals, None).await?;
    // Not the repository that git pushes to, so that its writer is like the others.
    let mut steady = repositories.split_off(repositories.len() - 1);
    let pushes = write(&mut steady, WriteRate::Every(scale.steady_interval, scale.steady_pushes)).await?;
    row(database, "PUT contents", &pushes, &arrivals, None).await?;
    repositories.append(&mut steady);
    let pushes = write(&mut repositories, WriteRate::Unlimited(scale.busy)).await?;
    let highest = pushes.rate();
    row(database, "8 writers, highest rate", &pushes, &arrivals, None).await?;
    let interval = Duration::from_secs_f64(f64::from(WRITERS) * 2.0 / highest);
    let count = (scale.busy.as_secs_f64() / interval.as_secs_f64()).ceil() as u32;
    let pushes = write(&mut repositories, WriteRate::Every(interval, count)).await?;
    row(database, "8 writers, half of that rate", &pushes, &arrivals, Some(P99_BAR)).await?;
    let client = installation::client()?;
    for hook in hooks {
        hook.delete(installation, &client).await?;
    }
    Ok(())
}

async fn by_git(tree: &mut WorkTree, scale: Scale) -> Result<Pushes, Failure> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    let mut ticks = tokio::time::interval(scale.steady_interval);
    for _ in 0..scale.steady_pushes {
        ticks.tick().await;
        all.push(tree.push().await?);
    }
    Ok(Pushes { begin, all })
}

/// Makes commits in all repositories concurrently.
async fn write(repositories: &mut Vec<Repository>, pace: WriteRate) -> Result<Pushes, Failure> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    let count = u32::try_from(repositories.len())?;
    let mut writers = JoinSet::new();
    for (number, mut repository) in (0..).zip(repositories.drain(..)) {
        writers.spawn(async move {
            let pushes = pace.write(&mut repository, begin, f64::from(number) / f64::from(count)).await?;
            Ok::<_, Failure>((repository, pushes))
        });
    }
    while let Some(written) = writers.join_next().await {
        let (repository, pushes) = written??;
        repositories.push(repository);
        all.extend(pushes);
    }
    Ok(Pushes { begin, all })
}

/// Waits for the webhooks of the pushes and prints their latencies.
async fn row(
    database: &str,
    name: &str,
    pushes: &Pushes,
    arrivals: &Arrivals,
    bar: Option<Duration>,
) -> Result<(), Failure> {
    let commits: Vec<_> = pushes.all.iter().map(|push| push.commit.as_str()).collect();
    let times = arrivals.of_commits(&commits, ARRIVAL_TIMEOUT).await?;
    // A webhook may arrive before the git program has ended.
    let late = pushes.all.iter().zip(&times).map(|(push, at)| at.saturating_duration_since(push.accepted));
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    let at = |percent: usize| percentile_ms(&late, percent);
    let arrived = times.iter().max().map_or(0.0, |last| per_second(times.len(), *last - pushes.begin));
    println!(
        "| {database:10} | {name:30} | {:>6} | {:>8.1} | {arrived:>16.1} | {:>8.1} | {:>8.1} | {:>8.1} | {:>8.1} | {:4} |",
        late.len(),
        pushes.rate(),
        at(50),
        at(95),
        at(99),
        at(100),
        if bar.is_some_and(|bar| percentile(&late, 99) > bar) { "over" } else { "" }
    );
    Ok(())
}
