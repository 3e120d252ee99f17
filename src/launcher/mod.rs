//! `ferrite up`: the whole service on one machine.
//!
//! Holds the data folder, makes its keys and its first administrator, runs one child process per role over Unix sockets inside the
//! folder, restarts those that die, and stops them in order. It serves nothing itself: what it knows of its children is their
//! command lines and whether they say that they are ready.

mod account;
mod child;
mod folder;
mod keys;
pub(crate) mod password;
mod plan;
mod preflight;
mod probe;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ferrite_kit::config::TelemetryArgs;
use ferrite_kit::{Lifecycle, Secret, telemetry};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::output::say;
use crate::role::{StopSignals, in_runtime, watch_stdin};
use child::{Children, News};
use folder::DataFolder;

/// How long all children together may take to become ready for the first time.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Settings of `ferrite up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    /// Where everything is kept. Made if it does not exist.
    #[arg(long, env = "FERRITE_DATA", default_value = "./ferrite-data")]
    data: PathBuf,

    /// Where to serve REST and git over HTTP. Port 0 lets the system choose.
    #[arg(long, env = "FERRITE_HTTP", default_value = "127.0.0.1:3000")]
    http: String,

    /// Where to serve git over SSH. Port 0 lets the system choose.
    #[arg(long, env = "FERRITE_SSH", default_value = "127.0.0.1:2222")]
    ssh: String,

    /// The `HOST:PORT` that SSH clone addresses name; by default the SSH address.
    #[arg(long, env = "FERRITE_PUBLIC_SSH")]
    public_ssh: Option<String>,

    /// The URL under which clients reach this; by default the HTTP address.
    #[arg(long, env = "FERRITE_PUBLIC_URL")]
    public_url: Option<String>,

    /// Opens the loopback ports 7001 to 7004 for gRPC, for internal consumers and debugging.
    #[arg(long, env = "FERRITE_GRPC_TCP")]
    grpc_tcp: bool,

    /// Seconds that stopping may take.
    #[arg(long, env = "FERRITE_GRACE_SECONDS", default_value = "20", value_parser = ferrite_kit::config::seconds)]
    grace: Duration,

    /// The name of the first administrator.
    #[arg(long, env = "FERRITE_ADMIN_USERNAME", default_value = "admin")]
    admin_username: String,

    /// The e-mail address of the first administrator.
    #[arg(long, env = "FERRITE_ADMIN_EMAIL", default_value = "admin@example.com")]
    admin_email: String,

    /// The password of the first administrator; made and printed once if left out.
    #[arg(
        long = "admin-password-from-environment",
        env = "FERRITE_ADMIN_PASSWORD",
        hide = true,
        hide_env_values = true
    )]
    admin_password: Option<Secret>,

    /// Stop when standard input ends.
    #[arg(long, env = "FERRITE_STOP_WITH_STDIN", hide = true)]
    stop_with_stdin: bool,

    #[command(flatten)]
    telemetry: TelemetryArgs,
}

/// Runs the launcher until a signal.
pub(crate) fn start(args: &UpArgs) -> ExitCode {
    in_runtime("up", Some(1), up(args))
}

async fn up(args: &UpArgs) -> Result<(), String> {
    // Children report traces; the launcher has none of its own.
    let reports = TelemetryArgs { otlp_endpoint: None, ..args.telemetry.clone() };
    telemetry::init("up", &reports).map_err(|error| error.to_string())?;
    let mut signals = StopSignals::new().map_err(|error| format!("cannot watch signals: {error}"))?;
    preflight::git().await?;
    let folder = DataFolder::open(&args.data)?;
    let http = preflight::free_port(&args.http)?;
    let ssh = preflight::free_port(&args.ssh)?;
    if args.grpc_tcp {
        plan::GRPC_PORTS.iter().try_for_each(|(_, address)| preflight::free_port(address).map(drop))?;
    }
    folder.enter()?;
    keys::ensure(&PathBuf::from(plan::KEYS))?;
    account::ensure_first_administrator(args).await?;
    let plan = plan::Plan::new(args, http, ssh);
    let life = Lifecycle::new(args.grace);
    if args.stop_with_stdin {
        watch_stdin(&life);
    }
    let (news_sender, mut news) = mpsc::unbounded_channel();
    let mut children = Children::start(&plan, &news_sender)?;
    let outcome = watch(&plan, &mut news, &mut signals, &life, &children).await;
    children.stop(args.grace, &mut signals).await;
    drop(folder);
    outcome
}

/// Watches over the children until somebody asks to stop, or until they cannot be started.
async fn watch(
    plan: &plan::Plan,
    news: &mut mpsc::UnboundedReceiver<News>,
    signals: &mut StopSignals,
    life: &Lifecycle,
    children: &Children,
) -> Result<(), String> {
    let deadline = Instant::now() + START_DEADLINE;
    let mut waiting: Vec<&'static str> = plan.roles();
    loop {
        tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, "stopping");
                return Ok(());
            }
            () = life.stopping() => return Ok(()),
            () = tokio::time::sleep_until(deadline), if !waiting.is_empty() => {
                return Err(format!("not ready after {} s: {}", START_DEADLINE.as_secs(), waiting.join(", ")));
            }
            Some(report) = news.recv() => match report {
                News::Ready(role) if !waiting.is_empty() => {
                    waiting.retain(|other| *other != role);
                    if waiting.is_empty() {
                        children.all_ready();
                        say(&format!("ready: http://{}", plan.shown()));
                    }
                }
                News::Ready(role) => tracing::info!(role, "ready again"),
                News::GaveUp(role, status) => {
                    return Err(format!("{role} does not start ({status}); its message is above"));
                }
            },
        }
    }
}
