//! A steady load of writes and reads for minutes: do responses get slower while repositories are
//! written to?
//!
//!     make bench-soak SECONDS=600 SHAPES=mixed
//!
//! Measures the release binary, `ferrite up` on SQLite, or the one in FERRITE_BENCH_BINARY. The
//! clients have one account each, and share the machine with the service. Afterwards it measures
//! plain git on freshly packed copies, checks every repository, and looks for every acknowledged
//! write. A missed bar is only printed; failed requests and lost writes fail the bench. Without
//! `--bench`, as in `cargo test --benches`, everything runs for a few seconds, as a test of the
//! bench.

mod check;
mod clients;
mod material;
mod plain;
mod record;
mod scheduled;
mod shape;
mod site;
mod verdict;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_benches::history::cache;
use ferrite_benches::processes::Processes;
use ferrite_benches::{Failure, block_on};
use tokio::task::JoinSet;

use clients::Client;
use record::{Record, Span};
use shape::{Load, Shape};
use site::Site;

/// Duration of a test of the bench.
const TEST_SECONDS: u64 = 3;
const SECONDS_PER_MINUTE: u64 = 60;

/// Writes to and reads from an installation for minutes.
#[derive(Debug, Parser)]
struct Args {
    /// Shapes of the load; all by default.
    #[arg(value_enum)]
    shapes: Vec<Shape>,

    /// Measured seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Seconds of load before the measurement.
    #[arg(long, default_value_t = 10)]
    warm_up_seconds: u64,

    /// Seconds between writes to one repository of many.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    interval_seconds: u64,

    /// Keep the data folders.
    #[arg(long)]
    keep: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// The time span of a measurement that starts now with its warmup.
    fn span(&self) -> Result<Span, Failure> {
        let seconds = if self.bench { self.seconds } else { TEST_SECONDS };
        let warm_up = Duration::from_secs(if self.bench { self.warm_up_seconds } else { 0 });
        let minutes = u32::try_from(seconds.div_ceil(SECONDS_PER_MINUTE))?;
        Ok(Span { begin: Instant::now() + warm_up, minute: Duration::from_secs(seconds) / minutes, minutes })
    }
}

/// The kind of a client.
enum Role {
    Writer,
    Pusher(String, Vec<PathBuf>),
    Cloner,
    Reader,
    Creator,
    Scheduled(scheduled::Schedule),
}

/// Creates an account for each client, and work trees for those that push.
async fn prepare(site: &mut Site, load: &Load) -> Result<Vec<(site::Account, Role)>, Failure> {
    let (mut clients, all) = (Vec::new(), (0..load.repositories).collect::<Vec<_>>());
    for number in 0..load.writers {
        clients.push((site.account(&format!("writer-{number}"), &all).await?, Role::Writer));
    }
    for number in 0..load.pushers {
        let branch = format!("pusher-{number}");
        let mut trees = Vec::new();
        for repository in &all {
            trees.push(site.work_tree(&branch, *repository).await?);
        }
        clients.push((site.account(&branch, &all).await?, Role::Pusher(branch.clone(), trees)));
    }
    for number in 0..load.cloners {
        clients.push((site.account(&format!("cloner-{number}"), &[]).await?, Role::Cloner));
    }
    for number in 0..load.readers {
        clients.push((site.account(&format!("reader-{number}"), &[]).await?, Role::Reader));
    }
    for number in 0..load.creators {
        clients.push((site.account(&format!("creator-{number}"), &[]).await?, Role::Creator));
    }
    for number in 0..load.scheduled.min(load.repositories) {
        let own: Vec<_> = all.iter().copied().skip(number).step_by(load.scheduled).collect();
        let branch = format!("scheduled-{number}");
        let mut repositories = Vec::new();
        for repository in &own {
            repositories.push((*repository, site.work_tree(&branch, *repository).await?));
        }
        let offset = load.interval * u32::try_from(number)? / u32::try_from(load.repositories)?;
        let schedule = scheduled::Schedule { repositories, interval: load.interval, offset, branch: branch.clone() };
        clients.push((site.account(&branch, &own).await?, Role::Scheduled(schedule)));
    }
    Ok(clients)
}

async fn run_client(client: Client, role: Role) -> Result<(), Failure> {
    match role {
        Role::Writer => client.write().await,
        Role::Pusher(branch, trees) => client.push_all(branch, trees).await,
        Role::Cloner => client.clone_all().await,
        Role::Reader => client.read().await,
        Role::Creator => client.create_and_delete().await,
        Role::Scheduled(schedule) => scheduled::run(client, schedule).await,
    }
}

/// Measures one shape. Returns whether no request failed and nothing is lost.
async fn measure(args: &Args, shape: Shape, folder: &Path) -> Result<bool, Failure> {
    let load = shape.load(args.bench, Duration::from_secs(args.interval_seconds));
    let history = tokio::task::block_in_place(|| {
        material::history(&cache(env!("CARGO_TARGET_TMPDIR"))?, load.commits, load.files)
    })?;
    std::fs::create_dir_all(folder)?;
    let mut site = Site::new(folder, history, &load).await?;
    let clients = prepare(&mut site, &load).await?;
    println!("\n## {shape:?}: {} repositories, {} clients", load.repositories, clients.len());
    let processes = Processes::of(site.installation.launcher()?);
    let (site, record) = (Arc::new(site), Arc::new(Record::new(args.span()?)));
    let mut running = JoinSet::new();
    for (number, (account, role)) in (0_u64..).zip(clients) {
        let client = Client { site: Arc::clone(&site), record: Arc::clone(&record), account, number };
        running.spawn(run_client(client, role));
    }
    let minutes = watch::run(&site, &processes, &record).await;
    record.end();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let minutes = minutes?;
    let mut site = Arc::into_inner(site).ok_or("a client has not ended")?;
    tokio::task::block_in_place(|| site.installation.stop());
    let baseline = plain::measure(&site, &load, &record, args.bench).await?;
    let failed = record.print_failures();
    let lost = check::losses(&site, &record).await;
    verdict::print(&minutes, &baseline, failed, lost);
    Ok(failed == 0 && lost == 0)
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let shapes = if args.shapes.is_empty() { Shape::ALL.to_vec() } else { args.shapes.clone() };
    let mut folder = tempfile::Builder::new().prefix("ferrite-soak-").tempdir()?;
    folder.disable_cleanup(args.keep);
    let mut is_sound = true;
    for shape in shapes {
        let place = folder.path().join(format!("{shape:?}"));
        is_sound &= block_on(measure(&args, shape, &place))?;
        if !args.keep {
            std::fs::remove_dir_all(&place)?;
        }
    }
    if is_sound { Ok(()) } else { Err("requests failed or data was lost".into()) }
}
