//! Supervises child processes: start, readiness, restart, stop.
//!
//! A child stops when its standard input ends, so no child outlives a killed launcher. Each child
//! has its own process group: Ctrl-C in the terminal signals only the launcher, which then stops
//! the children in order.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::{Plan, Spec};
use super::probe;
use crate::output::USAGE_STATUS;
use crate::role::StopSignals;

/// Delay before the first restart of a child. Doubles with each further restart.
const MIN_RESTART_DELAY: Duration = Duration::from_millis(100);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(5);
/// Uptime after which the restart delay is reset.
const HEALTHY_UPTIME: Duration = Duration::from_secs(30);
/// Failed starts in a row before the launcher gives up, until all children have been ready once.
const MAX_START_ATTEMPTS: u32 = 5;

#[derive(Debug)]
pub(super) enum ChildEvent {
    Ready(&'static str),
    /// The child with this role exited too often during the start and is not restarted. The text is
    /// its last exit status.
    StartFailed(&'static str, String),
    /// The child with this role rejected its settings. A restart would not help.
    SettingsRefused(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildCommand {
    Run,
    Stop,
    Kill,
}

struct Group {
    command: watch::Sender<ChildCommand>,
    supervisors: JoinSet<()>,
}

pub(super) struct Children {
    groups: Vec<Group>,
    all_ready: Arc<AtomicBool>,
}

impl Children {
    pub(super) fn start(plan: &Plan, events: &mpsc::UnboundedSender<ChildEvent>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let all_ready = Arc::new(AtomicBool::new(false));
        let groups = plan.groups.iter().map(|specs| {
            let (command, commands) = watch::channel(ChildCommand::Run);
            let mut supervisors = JoinSet::new();
            for spec in specs {
                let supervisor = Supervisor {
                    program: program.clone(),
                    spec: spec.clone(),
                    commands: commands.clone(),
                    events: events.clone(),
                    all_ready: Arc::clone(&all_ready),
                };
                supervisors.spawn(supervisor.supervise());
            }
            Group { command, supervisors }
        });
        Ok(Self { groups: groups.collect(), all_ready })
    }

    /// Marks the start as complete. Afterwards a child is restarted no matter how often it exits.
    pub(super) fn set_all_ready(&self) {
        self.all_ready.store(true, Ordering::SeqCst);
    }

    /// Stops the groups one after the other. Kills the remaining children after `grace` or at the
    /// next signal.
    pub(super) async fn stop(&mut self, grace: Duration, signals: &mut StopSignals) {
        let deadline = Instant::now() + grace;
        for group in &mut self.groups {
            let _ = group.command.send(ChildCommand::Stop);
            tokio::select! {
                () = join_all(&mut group.supervisors) => continue,
                () = tokio::time::sleep_until(deadline) => tracing::warn!("grace period over, killing the remaining children"),
                name = signals.next() => tracing::warn!(signal = name, "second signal, killing the remaining children"),
            }
            break;
        }
        for group in &self.groups {
            let _ = group.command.send(ChildCommand::Kill);
        }
        for group in &mut self.groups {
            join_all(&mut group.supervisors).await;
        }
    }
}

async fn join_all(supervisors: &mut JoinSet<()>) {
    while supervisors.join_next().await.is_some() {}
}

struct Supervisor {
    program: PathBuf,
    spec: Spec,
    commands: watch::Receiver<ChildCommand>,
    events: mpsc::UnboundedSender<ChildEvent>,
    all_ready: Arc<AtomicBool>,
}

impl Supervisor {
    /// Runs the child and restarts it when it exits. Returns when it was stopped by a command,
    /// failed to start too often, or rejected its settings.
    async fn supervise(mut self) {
        let mut delay = MIN_RESTART_DELAY;
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let (exit, code) = match spawn(&self.program, &self.spec) {
                Ok(child) => match self.wait(child).await {
                    Some(status) => (status.to_string(), status.code()),
                    None => return,
                },
                Err(error) => (error.to_string(), None),
            };
            let role = self.spec.role;
            if code == Some(i32::from(USAGE_STATUS)) {
                let _ = self.events.send(ChildEvent::SettingsRefused(role));
                return;
            }
            tracing::warn!(child = role, ending = exit, "child ended");
            failures += 1;
            if failures >= MAX_START_ATTEMPTS && !self.all_ready.load(Ordering::SeqCst) {
                let _ = self.events.send(ChildEvent::StartFailed(role, exit));
                return;
            }
            if started.elapsed() >= HEALTHY_UPTIME {
                delay = MIN_RESTART_DELAY;
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = self.commands.wait_for(|command| *command != ChildCommand::Run) => return,
            }
            delay = (delay * 2).min(MAX_RESTART_DELAY);
        }
    }

    /// Reports when the child is ready and waits for it to exit. Returns the status of an
    /// unexpected exit.
    async fn wait(&mut self, mut child: Child) -> Option<ExitStatus> {
        tracing::debug!(child = self.spec.role, pid = child.id(), "child started");
        // Taken out of the child because `Child::wait` would close it, which stops the child.
        let stdin = child.stdin.take();
        let mut is_ready = false;
        let command = loop {
            tokio::select! {
                status = child.wait() => return Some(status.unwrap_or_default()),
                () = probe::until_ready(&self.spec.admin), if !is_ready => {
                    is_ready = true;
                    let _ = self.events.send(ChildEvent::Ready(self.spec.role));
                }
                command = self.commands.wait_for(|command| *command != ChildCommand::Run) => {
                    break command.map_or(ChildCommand::Kill, |command| *command);
                }
            }
        };
        if command == ChildCommand::Stop {
            drop(stdin);
            tokio::select! {
                status = child.wait() => {
                    tracing::debug!(child = self.spec.role, status = %status.unwrap_or_default(), "child stopped");
                    return None;
                }
                _ = self.commands.wait_for(|command| *command == ChildCommand::Kill) => {}
            }
        }
        tracing::warn!(child = self.spec.role, "killing the child");
        let _ = child.kill().await;
        None
    }
}

fn spawn(program: &Path, spec: &Spec) -> std::io::Result<Child> {
    Command::new(program)
        .arg(spec.role)
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().cloned())
        .stdin(Stdio::piped())
        // Scripts read the launcher's own lines on standard output.
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

#[cfg(test)]
mod tests {
    use ferrite_core::net::Address;

    use super::*;

    #[tokio::test]
    async fn a_child_that_refuses_its_settings_is_not_restarted() {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let spec = Spec {
            role: "-c",
            arguments: vec![format!("echo >> {}; exit 2", starts.display())],
            environment: Vec::new(),
            admin: Address::Unix(folder.path().join("admin.sock")),
        };
        let (_command, commands) = watch::channel(ChildCommand::Run);
        let (events, mut received) = mpsc::unbounded_channel();
        // Not even after all children have been ready.
        let all_ready = Arc::new(AtomicBool::new(true));
        Supervisor { program: "/bin/sh".into(), spec, commands, events, all_ready }.supervise().await;
        assert!(matches!(received.recv().await, Some(ChildEvent::SettingsRefused("-c"))));
        assert_eq!(std::fs::read_to_string(starts).unwrap(), "\n");
    }
}
