//! Times of claims and marks by number of pending events, and the rate at which a backlog drains,
//! on both databases.
//!
//!     make bench-outbox SIZES="1000 1000000"
//!
//! The tables are those of issue-svc, in a new SQLite file and in a new database of the PostgreSQL
//! server in FERRITE_TEST_POSTGRES_URL. Without `--bench`, as in `cargo test --benches`, there are
//! few events and everything is measured once, as a test of the bench.

mod backlog;
mod drain;
mod rounds;
mod subscribers;

use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_benches::rounds::RoundArgs;
use ferrite_benches::{Failure, percentile_ms};
use ferrite_core::Secret;
use ferrite_db::Db;

use backlog::Shape;

const SIZES: [i64; 2] = [1_000, 1_000_000];
const TEST_SIZES: [i64; 1] = [1_000];
/// Connections to PostgreSQL: as many as a service has.
const MAX_CONNECTIONS: u32 = 16;

/// Measures the outbox.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of pending events, one per round.
    #[arg(value_parser = clap::value_parser!(i64).range(1_000..))]
    sizes: Vec<i64>,

    /// Measured claims and marks.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    claims: u32,

    /// Time limit for draining a backlog, in seconds.
    #[arg(long, default_value_t = 30)]
    drain_seconds: u64,

    #[command(flatten)]
    rounds: RoundArgs,
}

/// Numbers of repetitions.
#[derive(Clone, Copy, Debug)]
struct Extent {
    claims: u32,
    drain: Duration,
}

async fn round(database: &str, url: &Secret, size: i64, extent: Extent) -> Result<(), Failure> {
    let db = Db::open(url, MAX_CONNECTIONS).await?;
    issue_svc::migrations().run(&db).await?;
    for shape in Shape::ALL {
        let begin = Instant::now();
        backlog::fill(&db, url, shape, size).await?;
        eprintln!("{database}: {size} events created in {:.1} s", begin.elapsed().as_secs_f64());
        let mut times = rounds::measure(&db, url, shape, size, extent.claims).await?;
        times.claims.sort_unstable();
        times.marks.sort_unstable();
        println!(
            "| {database:10} | {size:>9} | {shape:17} | {:>8.2} | {:>8.2} | {:>8.2} | {:>8.2} |",
            percentile_ms(&times.claims, 50),
            percentile_ms(&times.claims, 95),
            percentile_ms(&times.marks, 50),
            percentile_ms(&times.marks, 95),
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
            percentile_ms(&late, 50),
            percentile_ms(&late, 99),
            late.len()
        );
    }
    db.close().await;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let extent = if args.rounds.bench {
        Extent { claims: args.claims, drain: Duration::from_secs(args.drain_seconds) }
    } else {
        Extent { claims: 1, drain: Duration::from_secs(2) }
    };
    println!("| database   | waiting   | in                | claim ms | p95      | mark ms  | p95      |");
    println!("|------------|-----------|-------------------|----------|----------|----------|----------|");
    for size in args.rounds.sizes(&args.sizes, &SIZES, &TEST_SIZES) {
        let round = async |database: &str, url: &Secret| round(database, url, size, extent).await;
        args.rounds.run_on_database(&round)?;
    }
    Ok(())
}
