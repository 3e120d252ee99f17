//! Times of searches and lists of repositories by number of repositories, on both databases.
//!
//!     make bench-search SIZES="10000 100000 1000000"
//!
//! repo-svc runs in this process on a Unix socket, with a new SQLite file and with a new database
//! of the PostgreSQL server in FERRITE_TEST_POSTGRES_URL. Without `--bench`, as in `cargo test
//! --benches`, every call is measured twice on few repositories, as a test of the bench.

mod seed;
mod server;

use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_benches::rounds::RoundArgs;
use ferrite_benches::{Failure, percentile};
use ferrite_core::Secret;
use ferrite_proto::repo::{ListRepositoriesRequest, SearchRepositoriesRequest, SearchUsersRequest};
use tonic::{Request, Status};

use seed::Dataset;
use server::Server;

const SIZES: [i64; 3] = [10_000, 100_000, 1_000_000];
const TEST_SIZES: [i64; 1] = [2_000];
const PAGE_SIZE: i32 = 50;

/// Measures searches.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of repositories, one per round.
    #[arg(value_parser = clap::value_parser!(i64).range(2_000..))]
    sizes: Vec<i64>,

    /// Measurements of each call.
    #[arg(long, default_value_t = 50)]
    calls: u32,

    #[command(flatten)]
    rounds: RoundArgs,
}

/// A measured call. Its number selects the words, so that consecutive calls differ.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// A full name of one repository.
    Rare,
    /// A part of every hundredth name.
    Common,
    /// Two characters, too short for the index.
    Short,
    /// A part of a user name.
    Users,
    /// All repositories that one user owns, collaborates on or can access through a team.
    Own,
}

impl Call {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Rare, "search, a rare name"),
        (Self::Common, "search, a common part"),
        (Self::Short, "search, two characters"),
        (Self::Users, "search for users"),
        (Self::Own, "list 1,000 own"),
    ];

    /// Makes the call and returns the total number of results.
    async fn make(self, server: &Server, dataset: &Dataset, number: u32, token: Option<&str>) -> Result<i64, Failure> {
        let query = match self {
            Self::Rare => dataset.rare(number),
            Self::Common => dataset.common(number),
            Self::Short => dataset.short(number),
            Self::Users => dataset.user(number),
            Self::Own => {
                let request = ListRepositoriesRequest { page: 1, page_size: 1_000, ..Default::default() };
                let answer = server.repositories().list_repositories(signed(request, token)?).await?.into_inner();
                return Ok(answer.repositories.len() as i64);
            }
        };
        if matches!(self, Self::Users) {
            let request = SearchUsersRequest { query, page: 1, page_size: PAGE_SIZE, user_id: 0 };
            return Ok(server.accounts().search_users(signed(request, token)?).await?.into_inner().total_count);
        }
        let request = SearchRepositoriesRequest { query, page: 1, page_size: PAGE_SIZE, ..Default::default() };
        Ok(server.repositories().search_repositories(signed(request, token)?).await?.into_inner().total_count)
    }
}

fn signed<T>(message: T, token: Option<&str>) -> Result<Request<T>, Failure> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    Ok(request)
}

struct Times {
    median: Duration,
    p95: Duration,
    found: i64,
}

async fn measure(
    (server, dataset): (&Server, &Dataset),
    call: Call,
    token: Option<&str>,
    calls: u32,
) -> Result<Times, Failure> {
    let mut found = 0;
    for number in 0..calls / 5 + 1 {
        found = call.make(server, dataset, number, token).await?;
    }
    if found == 0 || (matches!(call, Call::Own) && found != seed::OWN) {
        return Err(Status::internal(format!("{call:?} found {found}")).into());
    }
    let mut times = Vec::new();
    for number in 0..calls.max(1) {
        dataset.change().await?;
        let begin = Instant::now();
        call.make(server, dataset, number + 1_000, token).await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(Times { median: percentile(&times, 50), p95: percentile(&times, 95), found })
}

async fn round(database: &str, url: &Secret, size: i64, calls: u32) -> Result<(), Failure> {
    let server = Server::start(url).await?;
    let begin = Instant::now();
    let dataset = Dataset::fill(url, server.user_id(), size).await?;
    eprintln!("{database}: {size} repositories created in {:.1} s", begin.elapsed().as_secs_f64());
    for (call, name) in Call::ALL {
        for token in [None, Some(server.token())] {
            if token.is_none() && matches!(call, Call::Own) {
                continue;
            }
            let times = measure((&server, &dataset), call, token, calls).await?;
            let (median, p95) = (times.median.as_secs_f64() * 1e3, times.p95.as_secs_f64() * 1e3);
            let who = token.map_or("anybody", |_| "signed in");
            println!(
                "| {database:10} | {size:>9} | {name:22} | {who:9} | {:>7} | {median:>9.2} | {p95:>9.2} |",
                times.found
            );
        }
    }
    dataset.close().await;
    server.stop().await;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let calls = if args.rounds.bench { args.calls } else { 2 };
    println!("| database   | repos     | call                   | caller    | found   | median ms | p95 ms    |");
    println!("|------------|-----------|------------------------|-----------|---------|-----------|-----------|");
    for size in args.rounds.sizes(&args.sizes, &SIZES, &TEST_SIZES) {
        let round = async |database: &str, url: &Secret| round(database, url, size, calls).await;
        args.rounds.run_on_database(&round)?;
    }
    Ok(())
}
