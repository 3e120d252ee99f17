//! Webhooks on both databases: latency, rate of queued deliveries, and cost of a push.
//!
//!     make bench-hooks
//!
//! Measures the release binary: `ferrite up` on SQLite, and five processes on new databases of the
//! PostgreSQL server in FERRITE_TEST_POSTGRES_URL. Receivers are in this process, on loopback, and
//! share the machine with the service. Without `--bench`, as in `cargo test --benches`, everything
//! runs a few times, as a test of the bench.

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

/// Settings that allow deliveries to loopback, and enough hooks for all receivers.
const SETTINGS: Settings = &[("FERRITE_OUTBOUND_ALLOW", "127.0.0.0/8"), ("FERRITE_HOOK_OWNER_LIMIT", "1000")];

/// Measures webhooks.
#[derive(Debug, Parser)]
struct Args {
    /// Measurements; all by default.
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

/// Numbers of repetitions.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Turns of the compared measurements, which alternate.
    turns: u32,
    /// Measured pushes per turn.
    cost_pushes: u32,
    /// Sequential pushes, and the interval between them.
    steady_pushes: u32,
    steady_interval: Duration,
    /// Duration of pushes at full speed, and at half of that rate.
    busy: Duration,
    /// Receivers of queued deliveries, how many of them hang, and events per receiver.
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

/// Measures one kind of database. Cost comes first, because later there are hooks.
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
