//! All known attacks on an installation at the same time, beside an honest client: what the client
//! sees, and how much memory the attacks take.
//!
//!     make stress SECONDS=600
//!
//! Measures the release binary, `ferrite up` on SQLite, or the one in FERRITE_BENCH_BINARY. The
//! attackers have one account without any rights on other accounts' data, and one address; the
//! honest client has another address. All share the machine with the service. Without `--bench`, as
//! in `cargo test --benches`, everything runs for a few seconds, as a test of the bench.

mod attacks;
mod honest;
mod latency;
mod material;
mod memory;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use ferrite_benches::databases::Databases;
use ferrite_benches::installation::{Installation, Settings};
use ferrite_benches::{Failure, block_on};
use tokio::task::JoinSet;
use tokio::time::Instant;

use attacks::{Attack, Attacker, Tally};

/// Remotes and webhook receivers are on this machine. All other settings are the defaults.
const SETTINGS: Settings = &[("FERRITE_OUTBOUND_ALLOW", "127.0.0.0/8")];
/// Duration of a test of the bench.
const TEST_SECONDS: u64 = 5;
/// Time limit for attacks and the honest client to stop.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Attacks an installation beside an honest client.
#[derive(Debug, Parser)]
struct Args {
    /// Attacks; all by default.
    #[arg(value_enum)]
    attacks: Vec<Attack>,

    /// Duration of the attacks, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,

    /// Seconds of measuring the honest client alone before.
    #[arg(long, default_value_t = 30)]
    alone_seconds: u64,

    /// Run the attacks one after the other, each for a share of the time.
    #[arg(long)]
    one_by_one: bool,

    /// Keep the data folder.
    #[arg(long)]
    keep: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs the honest client beside the attacks `chosen` for `time`, and prints what it saw.
async fn round(
    name: &str,
    client: &mut honest::Client,
    attacker: &Arc<Attacker>,
    chosen: &[Attack],
    time: Duration,
) -> Result<(), Failure> {
    let sampler = memory::Sampler::start(attacker.launcher);
    let end = Instant::now() + time;
    let mut running = JoinSet::new();
    for attack in chosen {
        running.spawn(attacks::run(*attack, Arc::clone(attacker), end));
    }
    let seen = client.run_until(end).await;
    let mut tallies: Vec<(Attack, Tally)> = Vec::new();
    let ended = async {
        while let Some(tally) = running.join_next().await {
            tallies.push(tally?);
        }
        Ok::<(), Failure>(())
    };
    if tokio::time::timeout(END_TIMEOUT, ended).await.is_err() {
        println!("some attacks did not stop within {} s", END_TIMEOUT.as_secs());
    }
    tallies.sort_by_key(|(attack, _)| *attack);
    println!("\n## {name}");
    seen.print();
    if !tallies.is_empty() {
        attacks::print(&tallies);
    }
    sampler.stop().await.print();
    Ok(())
}

async fn run(args: &Args, folder: &Path) -> Result<(), Failure> {
    let data = folder.join("data");
    let installation = Installation::new(Databases::in_folder(&data), &data, 0, SETTINGS).await?;
    let client = honest::Client::new(&installation, folder).await?;
    let attacker = material::prepare(&installation, folder, args.bench).await?;
    let result = attack(args, client, &Arc::new(attacker)).await;
    drop(installation);
    result
}

async fn attack(args: &Args, mut client: honest::Client, attacker: &Arc<Attacker>) -> Result<(), Failure> {
    let limited = |seconds: u64| Duration::from_secs(if args.bench { seconds } else { seconds.min(TEST_SECONDS) });
    let chosen = if args.attacks.is_empty() { Attack::all() } else { args.attacks.clone() };
    round("alone", &mut client, attacker, &[], limited(args.alone_seconds)).await?;
    if args.one_by_one {
        let time = limited(args.seconds) / u32::try_from(chosen.len())?.max(1);
        for attack in chosen {
            round(&format!("{attack:?}"), &mut client, attacker, &[attack], time).await?;
        }
        return Ok(());
    }
    round("under attack", &mut client, attacker, &chosen, limited(args.seconds)).await
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut folder = tempfile::Builder::new().prefix("ferrite-stress-").tempdir()?;
    folder.disable_cleanup(args.keep);
    block_on(run(&args, folder.path()))
}
