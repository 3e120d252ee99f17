//! Gives one role its process: telemetry, listeners, signals, and an end within the grace period.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use ferrite_kit::config::{ServeArgs, TelemetryArgs};
use ferrite_kit::net::Listener;
use ferrite_kit::startup::ServiceFuture;
use ferrite_kit::{Lifecycle, server, telemetry};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::{complain, explain, say};

/// What the runner needs to know of a role's settings.
pub(crate) trait Role: Send + 'static {
    /// The role's name: on the command line, in logs and in traces.
    const NAME: &'static str;

    /// Where and how it serves.
    fn serve(&self) -> &ServeArgs;

    /// What it reports.
    fn telemetry(&self) -> &TelemetryArgs;

    /// Serves until `life` stops and requests have drained.
    fn run(self, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture;
}

macro_rules! roles {
    ($($service:ident = $name:literal)*) => {$(
        impl Role for $service::Config {
            const NAME: &'static str = $name;

            fn serve(&self) -> &ServeArgs {
                &self.serve
            }

            fn telemetry(&self) -> &TelemetryArgs {
                &self.telemetry
            }

            fn run(self, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
                $service::run(self, listeners, life)
            }
        }
    )*};
}

roles! {
    gateway = "gateway"
    repo_svc = "repo-svc"
    issue_svc = "issue-svc"
    hook_svc = "hook-svc"
    git_svc = "git-svc"
}

/// How long the runtime may take to end once everything has drained.
const RUNTIME_END: Duration = Duration::from_millis(200);

/// Runs a role until a signal, the end of standard input (when asked for), or a failure to start.
pub(crate) fn start<R: Role>(config: R) -> ExitCode {
    let workers = config.serve().workers;
    in_runtime(R::NAME, workers, serve(config))
}

/// Runs `work` on a runtime of its own, with so many threads or one for each core; its failure is one line on standard error.
pub(crate) fn in_runtime(name: &str, workers: Option<u16>, work: impl Future<Output = Result<(), String>>) -> ExitCode {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers.into());
    }
    let outcome = match builder.enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            runtime.shutdown_timeout(RUNTIME_END);
            outcome
        }
        Err(error) => Err(format!("cannot start: {error}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&format!("ferrite {name}: {message}"));
            ExitCode::FAILURE
        }
    }
}

async fn serve<R: Role>(config: R) -> Result<(), String> {
    let telemetry = telemetry::init(R::NAME, config.telemetry()).map_err(|error| error.to_string())?;
    let settings = config.serve().clone();
    let listeners = settings.bind().await.map_err(|error| error.to_string())?;
    let life = Lifecycle::new(settings.grace);
    if let Some(address) = &settings.admin_listen {
        let listener = address.bind().await.map_err(|error| error.to_string())?;
        life.spawn("admin listener", server::serve_admin(listener, telemetry.metrics.clone(), life.clone()));
    }
    for listener in &listeners {
        let address = listener.address().map_err(|error| error.to_string())?;
        say(&format!("listening: {address}"));
    }
    watch_signals(&life).map_err(|error| format!("cannot watch signals: {error}"))?;
    if settings.stop_with_stdin {
        watch_stdin(&life);
    }
    let outcome = config.run(listeners, life.clone()).await;
    let expected = life.is_stopping();
    life.stop();
    if !life.finished().await {
        tracing::warn!("requests or tasks were still running at the end of the grace period");
    }
    telemetry.flush();
    match outcome {
        Err(error) => Err(explain(&error)),
        Ok(()) if expected => Ok(()),
        Ok(()) => Err("stopped serving without being asked to".to_owned()),
    }
}

/// Signals that ask a process to stop.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl StopSignals {
    /// Starts to listen for them.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

fn watch_signals(life: &Lifecycle) -> std::io::Result<()> {
    let mut signals = StopSignals::new()?;
    let watched = life.clone();
    life.spawn("signals", async move {
        tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, "stopping");
                watched.stop();
            }
            () = watched.stopping() => {}
        }
    });
    Ok(())
}

/// Stops `life` when standard input ends. A thread, because a read of standard input cannot be taken back.
pub(crate) fn watch_stdin(life: &Lifecycle) {
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
