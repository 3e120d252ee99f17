//! Webhooks on both databases: their latency, the rate of queued deliveries, and the cost of a push.
//!
//!   make bench-hooks
//!
//! The service is the shipped binary: `ferrite up` on SQLite, and five processes on new databases of the PostgreSQL server that
//! FERRITE_TEST_POSTGRES_URL names. Receivers are in this process, on loopback, and share the machine with the service. Without
//! `--bench`, as `cargo test --benches` runs it, everything is done a few times: a test that it works.

mod backlog;
mod cost;
mod latency;
mod repositories;

use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ferrite_benches::Failure;
use ferrite_benches::installation::{Installation, Settings};
use ferrite_benches::rounds::{Round, RoundArgs};

/// Settings with which an installation delivers to loopback, and has hooks for every receiver.
const SETTINGS: Settings = &[("FERRITE_OUTBOUND_ALLOW", "127.0.0.0/8"), ("FERRITE_HOOK_OWNER_LIMIT", "1000")];

/// Measures webhooks.
#[derive(Debug, Parser)]
struct Args {
    /// The measurements; all of them if none is named.
    #[arg(value_enum)]
    measurements: Vec<Measurement>,

    #[command(flatten)]
    rounds: RoundArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measurement {
    /// Cost of a push in a repository without webhooks.
    Cost,
    /// Time from an accepted push to its webhook.
    Latency,
    /// Rate of queued deliveries while some receivers hang.
    Backlog,
}

/// How often things are done.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Rounds of measurements that are compared. They take turns.
    turns: u32,
    /// Pushes whose cost is measured, in each turn.
    cost_pushes: u32,
    /// Pushes one after the other, and the time between them.
    steady_pushes: u32,
    steady_interval: Duration,
    /// Time for which pushes are made as fast as possible, and at half of that rate.
    busy: Duration,
    /// Receivers of queued deliveries, those of them that hang, and events for each receiver.
    receivers: usize,
    hanging: usize,
    repositories: usize,
    issues_of_repository: usize,
}

const SCALE: Scale = Scale {
    turns: 2,
    cost_pushes: 300,
    steady_pushes: 60,
    steady_interval: Duration::from_secs(1),
    busy: Duration::from_secs(20),
    receivers: 100,
    hanging: 10,
    repositories: 10,
    issues_of_repository: 10,
};

const TEST_SCALE: Scale = Scale {
    turns: 1,
    cost_pushes: 3,
    steady_pushes: 2,
    steady_interval: Duration::from_millis(100),
    busy: Duration::from_millis(300),
    receivers: 5,
    hanging: 1,
    repositories: 2,
    issues_of_repository: 2,
};

impl Args {
    fn includes(&self, measurement: Measurement) -> bool {
        self.measurements.is_empty() || self.measurements.contains(&measurement)
    }
}

/// Measures one kind of database. The cost comes first: later on there are hooks.
async fn measure(round: &Round, args: &Args) -> Result<(), Failure> {
    let (database, folder) = (round.name, round.folder.as_path());
    let scale = if args.rounds.bench { SCALE } else { TEST_SCALE };
    let databases = round.databases(folder).await?;
    let installation = Arc::new(Installation::new(databases, folder, round.place, SETTINGS).await?);
    if args.includes(Measurement::Cost) {
        cost::measure(database, &installation, scale).await?;
    }
    if args.includes(Measurement::Latency) {
        latency::measure(database, &installation, folder, scale).await?;
    }
    if args.includes(Measurement::Backlog) {
        backlog::measure(database, &installation, scale).await?;
    }
    let installation = Arc::into_inner(installation).ok_or("a measurement has not ended")?;
    args.rounds.finish(installation, database, "hook-svc").await
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    args.rounds.run(async |round| measure(&round, &args).await)
}
