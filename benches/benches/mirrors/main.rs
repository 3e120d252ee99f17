//! Many mirrors due at the same time, on both databases: rate and concurrency of their syncs, and
//! the memory of git-svc.
//!
//!     make bench-mirrors
//!
//! Measures the release binary: `ferrite up` on SQLite, and five processes on new databases of the
//! PostgreSQL server in FERRITE_TEST_POSTGRES_URL. The remote is one repository on loopback, whose
//! server shares the machine with the service. Without `--bench`, as in `cargo test --benches`,
//! there are few mirrors, as a test of the bench.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use ferrite_benches::cpu::{CpuMeter, CpuTimes};
use ferrite_benches::installation::{Installation, Settings, USER, client};
use ferrite_benches::memory::Process;
use ferrite_benches::remote::Remote;
use ferrite_benches::rounds::{Round, RoundArgs};
use ferrite_benches::{Failure, milliseconds};
use ferrite_db::Db;
use ferrite_db::args;
use serde_json::json;
use tokio::task::JoinSet;

/// Concurrent syncs. The remote must see no more concurrent requests.
const SYNCS_AT_ONCE: &str = "4";
const SETTINGS: Settings = &[
    ("FERRITE_OUTBOUND_ALLOW", "127.0.0.0/8"),
    ("FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR", "0"),
    ("FERRITE_GIT_MIGRATION_AT_ONCE", "8"),
    ("FERRITE_GIT_MIRROR_AT_ONCE", SYNCS_AT_ONCE),
];
/// Mirrors created concurrently.
const MADE_AT_ONCE: usize = 8;
const TEST_MIRRORS: usize = 4;
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit for the syncs of all mirrors.
const SYNC_TIMEOUT: Duration = Duration::from_secs(3600);
/// Printed memory samples.
const SHOWN_SAMPLES: usize = 10;
const MAKE_DUE: &str = "UPDATE mirrors SET next_sync_us = $1";
/// Counts the mirrors that have not synced successfully since a time.
const COUNT_LEFT: &str = "SELECT COUNT(*) FROM mirrors WHERE last_sync_us < $1 OR last_error <> ''";

/// Measures mirrors.
#[derive(Debug, Parser)]
struct Args {
    /// Number of mirrors.
    #[arg(long, default_value_t = 5_000)]
    mirrors: usize,

    #[command(flatten)]
    rounds: RoundArgs,
}

fn now_us() -> Result<i64, Failure> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

/// Creates `count` mirrors of the remote, several concurrently.
async fn make(installation: &Arc<Installation>, remote: &Remote, count: usize) -> Result<(), Failure> {
    let uid = installation.user_id().await?;
    let mut makers = JoinSet::new();
    for maker in 0..MADE_AT_ONCE {
        let (installation, url) = (Arc::clone(installation), remote.url());
        makers.spawn(async move {
            for number in (maker..count).step_by(MADE_AT_ONCE) {
                let name = format!("mirror-{number}");
                let body = json!({"clone_addr": url, "uid": uid, "repo_name": name, "mirror": true, "wiki": false});
                installation.create("/repos/migrate", &body).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

/// Makes all mirrors due at the same time, and waits until each has synced.
async fn measure(title: &str, installation: &Installation, remote: &Remote, count: usize) -> Result<(), Failure> {
    let db = Db::open(&installation.databases.url("git-svc")?, 2).await?;
    let (process, mut samples) = (Process::of_role(installation, "git-svc")?, Vec::new());
    let (meter, mut cpu) = (CpuMeter::start(installation).await?, CpuTimes::default());
    process.reset_peak();
    remote.take_counts();
    let (begin, begin_us) = (Instant::now(), now_us()?);
    db.execute(MAKE_DUE, &args![begin_us]).await?;
    loop {
        samples.push(process.resident_mib()?);
        let (left,): (i64,) = db.one(COUNT_LEFT, &args![begin_us]).await?;
        if left == 0 {
            break;
        }
        if begin.elapsed() > SYNC_TIMEOUT {
            return Err(format!("{left} mirrors have not synced").into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let (elapsed, (requests, most)) = (begin.elapsed(), remote.take_counts());
    meter.finish(&mut cpu).await;
    db.close().await;
    let mirrors = u32::try_from(count)?;
    let rate = count as f64 / elapsed.as_secs_f64();
    println!("{title}: {count} mirrors in {:.1} s, {rate:.0} a second", elapsed.as_secs_f64());
    println!("  {requests} requests at the remote, at most {most} concurrent; the limit is {SYNCS_AT_ONCE}");
    let shown = samples.iter().step_by(samples.len().div_ceil(SHOWN_SAMPLES)).map(|mib| format!("{mib:.0}"));
    println!("  CPU of a sync, ms: {:.1} ({})", cpu.each(mirrors), cpu.by_process(mirrors));
    println!("  wall time of a sync, ms: {:.1}", milliseconds(elapsed, mirrors));
    println!(
        "  memory of git-svc over time, MiB: {}; peak {:.0}",
        shown.collect::<Vec<_>>().join(" "),
        process.peak_mib()?
    );
    if most > SYNCS_AT_ONCE.parse()? {
        return Err("more concurrent syncs than allowed".into());
    }
    Ok(())
}

async fn measure_round(round: &Round, args: &Args) -> Result<(), Failure> {
    let (database, folder) = (round.name, round.folder.as_path());
    let count = if args.rounds.bench { args.mirrors } else { TEST_MIRRORS };
    let remote = Remote::start(&folder.with_extension("remote")).await?;
    let databases = round.databases(folder).await?;
    let installation = Arc::new(Installation::new(databases, folder, round.place, SETTINGS).await?);
    let begin = Instant::now();
    make(&installation, &remote, count).await?;
    println!("{database}: {count} mirrors created in {:.1} s", begin.elapsed().as_secs_f64());
    let installation = Arc::into_inner(installation).ok_or("a request has not ended")?;
    measure(&format!("{database}, nothing changed"), &installation, &remote, count).await?;
    let commit = remote.commit().await?;
    measure(&format!("{database}, one commit each"), &installation, &remote, count).await?;
    for number in [0, count - 1] {
        let path = format!("/repos/{USER}/mirror-{number}/branches/main");
        let request = installation.request(&client()?, reqwest::Method::GET, &path);
        if !request.send().await?.text().await?.contains(&commit) {
            return Err(format!("mirror {number} does not match the remote").into());
        }
    }
    args.rounds.finish(installation, database, "git-svc").await
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    args.rounds.run(async |round| measure_round(&round, &args).await)
}
