//! Times of the issue tracker by number of issues in a repository, on both databases.
//!
//!     make bench-issues SIZES="1000 1000000"
//!
//! Measures the release binary: `ferrite up` on SQLite, and five processes on new databases of the
//! PostgreSQL server in FERRITE_TEST_POSTGRES_URL. Each size has its own installation, with one
//! repository that is filled by SQL; requests over REST alternate between them. Without `--bench`,
//! as in `cargo test --benches`, every request runs a few times on few issues, as a test of the
//! bench.

mod reads;
mod seed;
mod site;
mod writes;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use ferrite_benches::Failure;
use ferrite_benches::databases::Databases;
use ferrite_benches::rounds::{Round, RoundArgs};

use site::Site;

const SIZES: [i64; 2] = [1_000, 1_000_000];
const TEST_SIZES: [i64; 2] = [200, 400];

/// Measures the issue tracker.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of issues, each in a separate installation; the last one is compared with the first.
    #[arg(value_parser = clap::value_parser!(i64).range(200..))]
    sizes: Vec<i64>,

    /// Measurements of each read.
    #[arg(long, default_value_t = 200)]
    calls: u32,

    #[command(flatten)]
    rounds: RoundArgs,
}

/// Numbers of repetitions.
#[derive(Clone, Copy, Debug)]
struct Scale {
    calls: u32,
    concurrent_issues: u32,
    cpu_issues: u32,
}

impl Args {
    fn sizes(&self) -> Vec<i64> {
        self.rounds.sizes(&self.sizes, &SIZES, &TEST_SIZES)
    }

    fn scale(&self) -> Scale {
        if self.rounds.bench {
            Scale { calls: self.calls, concurrent_issues: 2_000, cpu_issues: 500 }
        } else {
            Scale { calls: 2, concurrent_issues: 40, cpu_issues: 5 }
        }
    }
}

/// Starts an installation and fills its repository.
async fn filled(database: &str, databases: Databases, folder: &Path, place: u8, size: i64) -> Result<Site, Failure> {
    let mut site = Site::new(databases, folder, place, size).await?;
    site.installation.stop();
    let begin = Instant::now();
    seed::fill(&site).await?;
    eprintln!(
        "{database}: {size} issues and {} comments made in {:.1} s",
        size * seed::ISSUE_COMMENTS,
        begin.elapsed().as_secs_f64()
    );
    site.installation.start().await?;
    Ok(site)
}

async fn measure(round: &Round, args: &Args) -> Result<(), Failure> {
    let (database, mut sites) = (round.name, Vec::new());
    let first_place = round.place * u8::try_from(args.sizes().len())?;
    for (place, size) in (first_place..).zip(args.sizes()) {
        let folder = round.folder.join(place.to_string());
        sites.push(filled(database, round.databases(&folder).await?, &folder, place, size).await?);
    }
    let scale = args.scale();
    reads::measure(database, &sites, scale.calls).await?;
    println!();
    for site in sites.into_iter().map(Arc::new) {
        writes::open_at_once(database, &site, scale.concurrent_issues).await?;
        writes::cpu_of_one(database, &site, scale.cpu_issues).await?;
        let site = Arc::into_inner(site).ok_or("a request has not ended")?;
        let title = format!("{database}, {} issues", site.size);
        args.rounds.finish(site.installation, &title, "issue-svc").await?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    args.rounds.run(async |round| measure(&round, &args).await)
}
