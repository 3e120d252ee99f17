//! How long searches and lists of repositories take, by the number of repositories there are, on both databases.
//!
//!   tests/servers.sh cargo bench --bench search -- 10000 100000 1000000
//!
//! repo-svc itself answers, in this process and over a Unix socket, on a fresh SQLite file and a fresh database of the PostgreSQL
//! server that FERRITE_TEST_POSTGRES_URL names. Without `--bench`, as `cargo test` runs it, everything happens once and small, so
//! that it goes on working.

mod seed;
mod server;

use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_kit::Secret;
use ferrite_proto::repo::{ListRepositoriesRequest, SearchRepositoriesRequest, SearchUsersRequest};
use tonic::{Request, Status};

use seed::Site;
use server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SIZES: [i64; 3] = [10_000, 100_000, 1_000_000];
const SMALL: [i64; 1] = [2_000];
const PAGE: i32 = 50;

/// How long searches take.
#[derive(Debug, Parser)]
struct Args {
    /// How many repositories to search, for each round.
    #[arg(value_parser = clap::value_parser!(i64).range(2_000..))]
    sizes: Vec<i64>,

    /// How often each call is measured.
    #[arg(long, default_value_t = 50)]
    calls: u32,

    /// Leave SQLite out.
    #[arg(long)]
    no_sqlite: bool,

    /// What cargo says when it measures, and not when it tests.
    #[arg(long, hide = true)]
    bench: bool,

    /// A PostgreSQL server to make databases on; left out if there is none.
    #[arg(long, env = "FERRITE_TEST_POSTGRES_URL", hide_env_values = true)]
    postgres: Option<String>,
}

/// What is measured. The number of a call chooses the words, so that no two calls in a row ask for the same.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// A whole name that one repository has.
    Rare,
    /// A part that every hundredth has.
    Common,
    /// A part of two characters, which no index knows.
    Short,
    /// A part of a user's name.
    Users,
    /// All that one user owns, collaborates on and has by a team.
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

    /// Calls once; how many there are in all.
    async fn make(self, server: &Server, site: &Site, number: u32, token: Option<&str>) -> Result<i64, Failure> {
        let query = match self {
            Self::Rare => site.rare(number),
            Self::Common => site.common(number),
            Self::Short => site.short(number),
            Self::Users => site.user(number),
            Self::Own => {
                let request = ListRepositoriesRequest { page: 1, page_size: 1_000, ..Default::default() };
                let answer = server.repositories().list_repositories(signed(request, token)?).await?.into_inner();
                return Ok(answer.repositories.len() as i64);
            }
        };
        if matches!(self, Self::Users) {
            let request = SearchUsersRequest { query, page: 1, page_size: PAGE };
            return Ok(server.accounts().search_users(signed(request, token)?).await?.into_inner().total_count);
        }
        let request = SearchRepositoriesRequest { query, page: 1, page_size: PAGE, owner_id: 0 };
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

/// The times of one call.
struct Times {
    median: Duration,
    p95: Duration,
    found: i64,
}

async fn measure(
    (server, site): (&Server, &Site),
    call: Call,
    token: Option<&str>,
    calls: u32,
) -> Result<Times, Failure> {
    let mut found = 0;
    for number in 0..calls / 5 + 1 {
        found = call.make(server, site, number, token).await?;
    }
    if found == 0 || (matches!(call, Call::Own) && found != seed::OWN) {
        return Err(Status::internal(format!("{call:?} found {found}")).into());
    }
    let mut times = Vec::new();
    for number in 0..calls.max(1) {
        let begin = Instant::now();
        call.make(server, site, number + 1_000, token).await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).or(times.last()).copied().unwrap_or_default();
    Ok(Times { median: at(50), p95: at(95), found })
}

async fn round(database: &str, url: &Secret, size: i64, calls: u32) -> Result<(), Failure> {
    let server = Server::start(url).await?;
    let begin = Instant::now();
    let site = Site::fill(url, server.user_id(), size).await?;
    eprintln!("{database}: {size} repositories made in {:.1} s", begin.elapsed().as_secs_f64());
    for (call, name) in Call::ALL {
        for token in [None, Some(server.token())] {
            if token.is_none() && matches!(call, Call::Own) {
                continue;
            }
            let times = measure((&server, &site), call, token, calls).await?;
            let (median, p95) = (times.median.as_secs_f64() * 1e3, times.p95.as_secs_f64() * 1e3);
            let who = token.map_or("anybody", |_| "signed in");
            println!(
                "| {database:10} | {size:>9} | {name:22} | {who:9} | {:>7} | {median:>9.2} | {p95:>9.2} |",
                times.found
            );
        }
    }
    server.stop().await;
    Ok(())
}

async fn run(args: Args) -> Result<(), Failure> {
    let sizes = match (args.sizes.as_slice(), args.bench) {
        ([], true) => SIZES.to_vec(),
        ([], false) => SMALL.to_vec(),
        (sizes, _) => sizes.to_vec(),
    };
    let calls = if args.bench { args.calls } else { 2 };
    println!("| database   | repos     | call                   | caller    | found   | median ms | p95 ms    |");
    println!("|------------|-----------|------------------------|-----------|---------|-----------|-----------|");
    for size in sizes {
        if !args.no_sqlite {
            let folder = tempfile::tempdir()?;
            let url = Secret::new(format!("sqlite://{}", folder.path().join("bench.db").display()));
            round("SQLite", &url, size, calls).await?;
        }
        if let Some(postgres) = &args.postgres {
            let url = server::new_database(postgres).await?;
            let outcome = round("PostgreSQL", &url, size, calls).await;
            server::drop_database(postgres, &url).await?;
            outcome?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(args))
}
