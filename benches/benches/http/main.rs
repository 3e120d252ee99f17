//! Throughput of small reads over REST, on both profiles, with 1 and with 32 connections.
//!
//!     make bench-http
//!
//! Measures the release binary: `ferrite up` on SQLite, and five processes on new databases of the
//! PostgreSQL server in FERRITE_TEST_POSTGRES_URL, with the Redis in FERRITE_TEST_REDIS_URL. The
//! clients are in this process and share the machine with the service. Each keeps its connection
//! and sends the next request as soon as it gets a response. Without `--bench`, as in `cargo test
//! --benches`, every request runs a few times, as a test of the bench.

mod counters;
mod files;
mod reads;
mod site;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use ferrite_benches::Failure;
use ferrite_benches::load::{self, Measured, Requests};
use ferrite_benches::rounds::{Round, RoundArgs};

use reads::Read;
use site::Site;

/// Numbers of connections.
const CONNECTIONS: [usize; 2] = [1, 32];
const TEST_TIME: Duration = Duration::from_millis(50);
/// Target rate of the production profile, in percent of the embedded one.
const AIM_PERCENT: f64 = 60.0;

/// Measures reads over REST.
#[derive(Debug, Parser)]
struct Args {
    /// Requests; all by default. The unknown path, which the ratios refer to, is always measured.
    #[arg(value_enum)]
    reads: Vec<Read>,

    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,

    #[command(flatten)]
    rounds: RoundArgs,

    /// Redis URL for the production profile.
    #[arg(long, env = "FERRITE_TEST_REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
}

/// A row of the table.
struct Row {
    read: Read,
    connections: usize,
    measured: Measured,
}

impl Args {
    fn reads(&self) -> Vec<Read> {
        let is_chosen = |read: &Read| self.reads.is_empty() || self.reads.contains(read) || *read == Read::Unknown;
        Read::ALL.into_iter().filter(is_chosen).collect()
    }

    fn time(&self) -> Duration {
        if self.rounds.bench { Duration::from_secs(self.seconds) } else { TEST_TIME }
    }
}

/// Measures one profile.
async fn measure(profile: &str, site: &Site, args: &Args) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    println!(
        "\n| {profile:10} | connections | requests/s |   p50, ms |   p99, ms | statements | of unknown | CPU of a request, µs"
    );
    println!("|------------|------------:|-----------:|----------:|----------:|-----------:|-----------:|-");
    for connections in CONNECTIONS {
        let mut unknown = None;
        for read in args.reads().into_iter().filter(|read| connections == 1 || !read.is_one_at_a_time()) {
            let sent = Arc::new(Requests {
                url: site.installation.url.clone(),
                headers: vec![("authorization", format!("token {}", site.installation.token))],
                path: Box::new(move |number| read.path(number)),
                status: read.status(),
            });
            load::run(&sent, connections, args.time() / 4).await?;
            let counters = counters::Counters::start(site).await?;
            let measured = load::run(&sent, connections, args.time()).await?;
            let requests = measured.requests();
            let used = counters.since().await?;
            let statements = used.statements / requests;
            let base = *unknown.get_or_insert(measured.rate());
            println!(
                "| {:10} | {connections:>11} | {:>10.0} | {:>9.2} | {:>9.2} | {:>10.2} | {:>10.2} | {}",
                read.name(),
                measured.rate(),
                measured.percentile_ms(50),
                measured.percentile_ms(99),
                statements,
                measured.rate() / base,
                used.cpu_of_each(requests),
            );
            rows.push(Row { read, connections, measured });
        }
    }
    Ok(rows)
}

/// Starts, measures and removes an installation.
async fn profile(round: &Round, args: &Args) -> Result<Vec<Row>, Failure> {
    let databases = round.databases(&round.folder).await?;
    let redis = args.redis.as_deref().filter(|_| databases.is_postgres());
    let site = Site::new(databases, &round.folder, round.place, redis, args.rounds.bench).await?;
    let rows = measure(round.name, &site, args).await?;
    args.rounds.finish(site.installation, round.name, "repo-svc").await?;
    Ok(rows)
}

/// Prints the rates of one profile relative to the other.
fn compare(embedded: &[Row], other: &[Row]) {
    println!("\n| PostgreSQL and Redis against `ferrite up` | connections | ratio |      |");
    println!("|-------------------------------------------|------------:|------:|------|");
    for (ours, base) in other.iter().zip(embedded) {
        let ratio = ours.measured.rate() / base.measured.rate();
        let mark = if ratio * 100.0 < AIM_PERCENT { "below" } else { "" };
        println!("| {:41} | {:>11} | {ratio:>5.2} | {mark:5}|", ours.read.name(), ours.connections);
    }
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let profiles = RefCell::new(Vec::new());
    args.rounds.run(async |round| {
        let rows = profile(&round, &args).await?;
        profiles.borrow_mut().push(rows);
        Ok(())
    })?;
    if let [embedded, other] = profiles.into_inner().as_slice() {
        compare(embedded, other);
    }
    Ok(())
}
