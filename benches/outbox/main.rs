//! Times of claims and of marks by the number of events that wait, and the rate at which a backlog drains, on both databases.
//!
//!   tests/servers.sh cargo bench --bench outbox -- 1000 1000000
//!
//! The tables are those of issue-svc, on a new SQLite file and on a new database of the PostgreSQL server that
//! FERRITE_TEST_POSTGRES_URL names. Without `--bench`, as `cargo test --benches` runs it, few events wait and everything is measured
//! once: a test that it works.

mod backlog;
mod drain;
#[path = "../support/one_database.rs"]
mod one_database;
mod rounds;
mod subscribers;

use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_core::Secret;
use ferrite_db::Db;

use backlog::Shape;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SIZES: [i64; 2] = [1_000, 1_000_000];
const TEST_SIZES: [i64; 1] = [1_000];
/// Connections to PostgreSQL, as many as a service has.
const MAX_CONNECTIONS: u32 = 16;

/// Measures the outbox.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of events that wait, one for each round.
    #[arg(value_parser = clap::value_parser!(i64).range(1_000..))]
    sizes: Vec<i64>,

    /// Measured claims and marks.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    claims: u32,

    /// Most seconds for which a backlog drains.
    #[arg(long, default_value_t = 30)]
    drain_seconds: u64,

    /// Leave SQLite out.
    #[arg(long)]
    no_sqlite: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,

    /// A PostgreSQL server to make databases on; left out if there is none.
    #[arg(long, env = "FERRITE_TEST_POSTGRES_URL", hide_env_values = true)]
    postgres: Option<String>,
}

/// The extent of a run.
#[derive(Clone, Copy, Debug)]
struct Extent {
    claims: u32,
    drain: Duration,
}

/// Returns the value that `percent` of the sorted times are below.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let time = times.get(times.len() * percent / 100).or(times.last()).copied().unwrap_or_default();
    time.as_secs_f64() * 1e3
}

async fn round(database: &str, url: &Secret, size: i64, extent: Extent) -> Result<(), Failure> {
    let db = Db::open(url, MAX_CONNECTIONS).await?;
    issue_svc::migrations().run(&db).await?;
    for shape in Shape::ALL {
        let begin = Instant::now();
        backlog::fill(&db, url, shape, size).await?;
        eprintln!("{database}: {size} events made in {:.1} s", begin.elapsed().as_secs_f64());
        let mut times = rounds::measure(&db, url, shape, size, extent.claims).await?;
        times.claims.sort_unstable();
        times.marks.sort_unstable();
        println!(
            "| {database:10} | {size:>9} | {shape:17} | {:>8.2} | {:>8.2} | {:>8.2} | {:>8.2} |",
            percentile(&times.claims, 50),
            percentile(&times.claims, 95),
            percentile(&times.marks, 50),
            percentile(&times.marks, 95),
            shape = shape.to_string(),
        );
    }
    backlog::fill(&db, url, Shape::ManyRepositories, size).await?;
    let drained = drain::measure(&db, extent.drain).await?;
    println!("{database}: a backlog of {size} drains at {:.0} events a second", drained.rate);
    for (name, mut late) in [("without a backlog", drained.late_before), ("while it drains", drained.late_meanwhile)] {
        late.sort_unstable();
        println!(
            "{database}: events of another subscriber {name}: {:.2} ms (median), {:.2} ms (p99) after their commit, {} events",
            percentile(&late, 50),
            percentile(&late, 99),
            late.len()
        );
    }
    db.close().await;
    Ok(())
}

async fn run(args: Args) -> Result<(), Failure> {
    let sizes = match (args.sizes.as_slice(), args.bench) {
        ([], true) => SIZES.to_vec(),
        ([], false) => TEST_SIZES.to_vec(),
        (sizes, _) => sizes.to_vec(),
    };
    let extent = if args.bench {
        Extent { claims: args.claims, drain: Duration::from_secs(args.drain_seconds) }
    } else {
        Extent { claims: 1, drain: Duration::from_secs(2) }
    };
    println!("| database   | waiting   | in                | claim ms | p95      | mark ms  | p95      |");
    println!("|------------|-----------|-------------------|----------|----------|----------|----------|");
    for size in sizes {
        let round = async |database: &str, url: &Secret| round(database, url, size, extent).await;
        one_database::on_each(args.no_sqlite, args.postgres.as_deref(), round).await?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}
