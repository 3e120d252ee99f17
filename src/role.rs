//! Runs one role in this process: telemetry, listeners, signals, and shutdown within the grace
//! period.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use ferrite_core::net::Listener;
use ferrite_core::startup::ServiceFuture;
use ferrite_core::{Lifecycle, telemetry};
use ferrite_listener::{self as server, ProcessArgs};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment;
use crate::output::{Failure, error_chain, exit_code, print_line};

/// The settings of a role.
pub(crate) trait Role: Send + 'static {
    /// Name on the command line, in logs and in traces.
    const NAME: &'static str;

    fn process(&self) -> &ProcessArgs;

    /// Checks settings and files before an address is bound.
    fn check(&self) -> Result<(), String>;

    /// Waits until the database and Redis can be used.
    fn wait_for_servers(&self, life: &Lifecycle) -> ServiceFuture;

    /// Serves until `life` stops and requests have drained.
    fn run(self, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture;
}

macro_rules! roles {
    ($($service:ident = $name:literal)*) => {$(
        impl Role for $service::Config {
            const NAME: &'static str = $name;

            fn process(&self) -> &ProcessArgs {
                &self.process
            }

            fn check(&self) -> Result<(), String> {
                self.check_addresses().map_err(|error| error.to_string())?;
                $service::check(self).map_err(|error| error_chain(&error))
            }

            fn wait_for_servers(&self, life: &Lifecycle) -> ServiceFuture {
                $service::wait_for_servers(self, life)
            }

            fn run(self, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
                $service::run(self, listeners, life)
            }
        }
    )*

        pub(crate) const NAMES: &[&str] = &[$($name),*];

        pub(crate) fn command_line(role: &str) -> Option<clap::Command> {
            match role {
                $($name => Some(<$service::Config as clap::CommandFactory>::command()),)*
                _ => None,
            }
        }

        /// Checks parsed settings and their files as [`Role::check`]. Does nothing for an unknown
        /// role.
        pub(crate) fn check_settings(role: &str, settings: &clap::ArgMatches) -> Result<(), String> {
            match role {
                $($name => {
                    let config = <$service::Config as clap::FromArgMatches>::from_arg_matches(settings);
                    Role::check(&config.map_err(|error| error.to_string())?)
                })*
                _ => Ok(()),
            }
        }
    };
}

roles! {
    gateway = "gateway"
    repo_svc = "repo-svc"
    issue_svc = "issue-svc"
    hook_svc = "hook-svc"
    git_svc = "git-svc"
}

const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

const FAILED_START_PAUSE: Duration = Duration::from_secs(5);

/// Runs a role. Logs `warnings` first, unless the launcher has already logged its own.
pub(crate) fn start<R: Role>(config: R, warnings: &[String]) -> ExitCode {
    let workers = config.process().serve.workers;
    in_runtime(R::NAME, workers, serve(config, warnings))
}

/// Runs `work` on a new runtime with `workers` threads, by default one per core. Prints an error as
/// one line.
pub(crate) fn in_runtime<E: Into<Failure>>(
    name: &str,
    workers: Option<u16>,
    work: impl Future<Output = Result<(), E>>,
) -> ExitCode {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers.into());
    }
    let outcome: Result<(), Failure> = match builder.enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
            outcome.map_err(Into::into)
        }
        Err(error) => Err(Failure::from(format!("cannot start: {error}"))),
    };
    exit_code(name, outcome)
}

async fn serve<R: Role>(config: R, warnings: &[String]) -> Result<(), String> {
    let telemetry = telemetry::init(R::NAME, &config.process().telemetry).map_err(|error| error.to_string())?;
    if !config.process().serve.stop_with_stdin {
        environment::log(warnings);
    }
    config.check()?;
    server::raise_descriptor_limit();
    let settings = config.process().serve.clone();
    let life = Lifecycle::new(settings.grace);
    if let Some(address) = &settings.admin_listen {
        let listener = address.bind().await.map_err(|error| format!("FERRITE_ADMIN_LISTEN: {error}"))?;
        life.spawn("admin listener", server::serve_admin(listener, telemetry.metrics.clone(), life.clone()));
    }
    // Under the launcher there is no other process of the role to take the requests.
    let drain = if settings.stop_with_stdin { Duration::ZERO } else { settings.drain };
    stop_with_signals(&life, drain).map_err(|error| format!("cannot watch signals: {error}"))?;
    if settings.stop_with_stdin {
        stop_with_stdin(&life);
    }
    // Addresses are bound later, so that clients are refused at once and go elsewhere until then.
    config.wait_for_servers(&life).await.map_err(|error| error_chain(&error))?;
    if life.is_stopping() {
        return Ok(());
    }
    let listeners = settings.bind().await.map_err(|error| format!("FERRITE_LISTEN: {error}"))?;
    for listener in &listeners {
        let address = listener.address().map_err(|error| error.to_string())?;
        print_line(&format!("listening: {address}"));
    }
    let outcome = config.run(listeners, life.clone()).await;
    if let (Err(error), false) = (&outcome, settings.stop_with_stdin) {
        // The launcher itself waits between starts.
        linger(&error_chain(error), &life).await;
    }
    let is_expected = life.is_stopping();
    life.stop();
    if !life.finished().await {
        tracing::warn!("grace period over with requests or tasks still running");
    }
    telemetry.flush();
    match outcome {
        Err(error) => Err(error_chain(&error)),
        Ok(()) if is_expected => Ok(()),
        Ok(()) => Err("stopped serving unexpectedly".to_owned()),
    }
}

/// Stays alive but not ready after a failed start, so that a supervisor does not restart the
/// process in a tight loop and `/readyz` can report the reason.
async fn linger(reason: &str, life: &Lifecycle) {
    life.set_ready(false);
    life.set_unready_reason(reason);
    life.pause(FAILED_START_PAUSE).await;
}

/// SIGTERM, SIGINT and SIGHUP.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl StopSignals {
    /// Replaces the default actions of the signals.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

/// Stops `life` after `drain` at the first signal, and at once at the second.
fn stop_with_signals(life: &Lifecycle, drain: Duration) -> std::io::Result<()> {
    let mut signals = StopSignals::new()?;
    let watched = life.clone();
    life.spawn("signals", async move {
        tokio::select! {
            name = signals.next() => tracing::info!(signal = name, drain_seconds = drain.as_secs(), "stopping"),
            () = watched.stopping() => return,
        }
        tokio::select! {
            () = watched.drain_and_stop(drain) => {}
            _ = signals.next() => watched.stop(),
        }
    });
    Ok(())
}

/// Stops `life` when standard input ends. Uses a thread because a blocking read cannot be
/// cancelled.
pub(crate) fn stop_with_stdin(life: &Lifecycle) {
    let life = life.clone();
    std::thread::spawn(move || {
        let mut scratch = [0; 64];
        let mut input = std::io::stdin().lock();
        loop {
            match input.read(&mut scratch) {
                Ok(0) => break,
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        life.stop();
    });
}
