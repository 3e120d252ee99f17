//! Pull requests over REST, on both databases: opened and merged one after the other and at once,
//! and open ones listed after a push to their base.
//!
//!     make bench-pulls
//!
//! Measures the release binary: `ferrite up` on SQLite, and five processes on new databases of the
//! PostgreSQL server in FERRITE_TEST_POSTGRES_URL, with the Redis in FERRITE_TEST_REDIS_URL. The
//! branches are pushed before. Clients share the machine with the service. A refused request is
//! counted by its status and not repeated. Without `--bench`, as in `cargo test --benches`, there
//! are few pull requests, as a test of the bench.

mod lists;
mod merges;
mod site;

use std::sync::Arc;

use clap::{Parser, ValueEnum};
use ferrite_benches::Failure;
use ferrite_benches::installation::{Installation, Settings};
use ferrite_benches::rounds::{Round, RoundArgs};

use site::Pull;

/// Without these settings, the bench would reach the limits of one user.
const SETTINGS: [(&str, &str); 5] = [
    ("FERRITE_ISSUE_ISSUES_PER_HOUR", "0"),
    ("FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", "0"),
    ("FERRITE_WRITES_PER_HOUR", "0"),
    ("FERRITE_WRITE_BYTES_PER_HOUR", "0"),
    ("FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR", "0"),
];
/// The same numbers in a test of the bench.
const TEST_COUNT: usize = 4;
const TEST_REPOSITORIES: usize = 2;
const TEST_FILES: usize = 20;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// One after the other, in a repository with few files.
    Single,
    /// One after the other, in a repository with many files.
    Large,
    /// Several at once, on several repositories with few files.
    Crowd,
    /// Open ones, listed after a push to their base.
    Lists,
}

impl Row {
    const ALL: [Self; 4] = [Self::Single, Self::Large, Self::Crowd, Self::Lists];
}

/// Measures pull requests.
#[derive(Debug, Parser)]
struct Args {
    /// Measurements; all by default.
    #[arg(value_enum)]
    rows: Vec<Row>,

    /// Pull requests of each measurement.
    #[arg(long, default_value_t = 1_000)]
    count: usize,

    /// Clients of `crowd`, with one request at a time.
    #[arg(long, default_value_t = 16)]
    at_once: usize,

    /// Repositories of `crowd`.
    #[arg(long, default_value_t = 20)]
    repositories: usize,

    /// Files of a repository; at least as many as it has pull requests.
    #[arg(long, default_value_t = 1_000)]
    files: usize,

    /// Files of the repository of `large`.
    #[arg(long, default_value_t = 70_000)]
    many_files: usize,

    /// How they are merged.
    #[arg(long, default_value = "merge")]
    style: String,

    #[command(flatten)]
    rounds: RoundArgs,

    /// Redis URL for the processes on PostgreSQL.
    #[arg(long, env = "FERRITE_TEST_REDIS_URL", hide_env_values = true)]
    redis: Option<String>,
}

impl Args {
    /// The given sizes, or those of a test.
    fn sized(mut self) -> Self {
        if !self.rounds.bench {
            self.count = self.count.min(TEST_COUNT);
            self.repositories = self.repositories.min(TEST_REPOSITORIES);
            self.files = self.files.min(TEST_FILES);
            self.many_files = self.many_files.min(TEST_FILES);
        }
        self
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        Row::ALL.into_iter().filter(|row| self.rows.is_empty() || self.rows.contains(row))
    }
}

/// Pushes the branches of a measurement, merges them, and prints a line.
async fn merge(
    title: &str,
    installation: &Arc<Installation>,
    round: &Round,
    args: &Args,
    row: Row,
) -> Result<(), Failure> {
    let (repositories, files, at_once) = match row {
        Row::Crowd => (args.repositories.max(1), args.files, args.at_once),
        Row::Large => (1, args.many_files, 1),
        Row::Single | Row::Lists => (1, args.files, 1),
    };
    let name = format!("{row:?}").to_lowercase();
    let branches = args.count.div_ceil(repositories);
    let mut pulls = Vec::new();
    for number in 0..repositories {
        let repository = format!("{name}-{number}");
        site::push(installation, &round.folder, &repository, files, branches).await?;
        pulls.push(Pull::of(&repository, branches));
    }
    let measured = merges::run(installation, interleaved(pulls, args.count), at_once, &args.style).await?;
    println!("| {title:10} | {repositories:>12} | {files:>6} | {at_once:>7} | {measured}");
    Ok(())
}

/// One of each repository in turn, so that clients are on different ones.
fn interleaved(mut lists: Vec<Vec<Pull>>, count: usize) -> Vec<Pull> {
    let mut taken = Vec::new();
    while taken.len() < count && lists.iter().any(|list| !list.is_empty()) {
        taken.extend(lists.iter_mut().filter_map(Vec::pop));
    }
    taken.truncate(count);
    taken
}

/// Starts, measures and removes an installation.
async fn profile(round: Round, args: &Args) -> Result<(), Failure> {
    let databases = round.databases(&round.folder).await?;
    let mut settings = SETTINGS.to_vec();
    if let Some(url) = args.redis.as_ref().filter(|_| databases.is_postgres()) {
        settings.push(("FERRITE_REDIS_URL", url.clone().leak()));
    }
    // Lives as long as the bench.
    let settings: Settings = settings.leak();
    let installation = Arc::new(Installation::new(databases, &round.folder, round.place, settings).await?);
    if args.rows().any(|row| row != Row::Lists) {
        println!("\n| {:10} | repositories |  files | at once | {}", round.name, merges::HEADING);
        println!("|------------|-------------:|-------:|--------:|{}", merges::RULE);
    }
    for row in args.rows().filter(|row| *row != Row::Lists) {
        merge(round.name, &installation, &round, args, row).await?;
    }
    if args.rows().any(|row| row == Row::Lists) {
        lists::measure(round.name, &installation, &round.folder, args.files, args.count).await?;
    }
    let installation = Arc::into_inner(installation).ok_or("a client still runs")?;
    args.rounds.finish(installation, round.name, "issue-svc").await
}

fn main() -> Result<(), Failure> {
    let args = Args::parse().sized();
    args.rounds.run(async |round| profile(round, &args).await)
}
