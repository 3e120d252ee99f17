//! Child processes: started, watched, restarted, stopped.
//!
//! A child ends when its standard input ends, so that none outlives a launcher that was killed. Each has a process group of its own:
//! a key pressed in the terminal reaches the launcher alone, which then stops the children in order.

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
use crate::role::StopSignals;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A child that lived this long was healthy: the next restart is quick again.
const HEALTHY: Duration = Duration::from_secs(30);
/// Starts of one child in a row that may fail before the whole service has ever been ready.
const ATTEMPTS: u32 = 5;

/// What happens to children.
#[derive(Debug)]
pub(super) enum News {
    /// A child says that it is ready.
    Ready(&'static str),
    /// A child cannot be started; why it ended the last time.
    GaveUp(&'static str, String),
}

/// What a child's keeper is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Run,
    Stop,
    Kill,
}

struct Group {
    wish: watch::Sender<Wish>,
    keepers: JoinSet<()>,
}

/// All children, in groups that stop one after the other.
pub(super) struct Children {
    groups: Vec<Group>,
    all_ready: Arc<AtomicBool>,
}

impl Children {
    /// Starts every process of the plan.
    pub(super) fn start(plan: &Plan, news: &mpsc::UnboundedSender<News>) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let all_ready = Arc::new(AtomicBool::new(false));
        let groups = plan.groups.iter().map(|specs| {
            let (wish, wishes) = watch::channel(Wish::Run);
            let mut keepers = JoinSet::new();
            for spec in specs {
                let keeper = Keeper {
                    program: program.clone(),
                    spec: spec.clone(),
                    wishes: wishes.clone(),
                    news: news.clone(),
                    all_ready: Arc::clone(&all_ready),
                };
                keepers.spawn(keeper.keep());
            }
            Group { wish, keepers }
        });
        Ok(Self { groups: groups.collect(), all_ready })
    }

    /// Says that the whole service has been ready: from now on children are restarted for ever.
    pub(super) fn all_ready(&self) {
        self.all_ready.store(true, Ordering::SeqCst);
    }

    /// Stops group after group within `grace`, and kills what is left then, or at the next signal.
    pub(super) async fn stop(&mut self, grace: Duration, signals: &mut StopSignals) {
        let deadline = Instant::now() + grace;
        for group in &mut self.groups {
            let _ = group.wish.send(Wish::Stop);
            tokio::select! {
                () = all(&mut group.keepers) => continue,
                () = tokio::time::sleep_until(deadline) => tracing::warn!("the grace period is over: killing what still runs"),
                name = signals.next() => tracing::warn!(signal = name, "asked again: killing what still runs"),
            }
            break;
        }
        for group in &self.groups {
            let _ = group.wish.send(Wish::Kill);
        }
        for group in &mut self.groups {
            all(&mut group.keepers).await;
        }
    }
}

async fn all(keepers: &mut JoinSet<()>) {
    while keepers.join_next().await.is_some() {}
}

/// Keeps one child alive.
struct Keeper {
    program: PathBuf,
    spec: Spec,
    wishes: watch::Receiver<Wish>,
    news: mpsc::UnboundedSender<News>,
    all_ready: Arc<AtomicBool>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let ending = match spawn(&self.program, &self.spec) {
                Ok(child) => match self.attend(child).await {
                    Some(status) => status.to_string(),
                    None => return,
                },
                Err(error) => error.to_string(),
            };
            let role = self.spec.role;
            tracing::warn!(role, ending, "child ended");
            failures += 1;
            if failures >= ATTEMPTS && !self.all_ready.load(Ordering::SeqCst) {
                let _ = self.news.send(News::GaveUp(role, ending));
                return;
            }
            if started.elapsed() >= HEALTHY {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.wishes.wait_for(|wish| *wish != Wish::Run) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Watches one life of the child. Returns how it ended, or nothing when it was asked to.
    async fn attend(&mut self, mut child: Child) -> Option<ExitStatus> {
        tracing::debug!(role = self.spec.role, pid = child.id(), "child started");
        // Taken out of the child, because waiting for it would close it.
        let lifeline = child.stdin.take();
        let mut is_ready = false;
        let stopped = loop {
            tokio::select! {
                status = child.wait() => return Some(status.unwrap_or_default()),
                () = probe::until_ready(&self.spec.admin), if !is_ready => {
                    is_ready = true;
                    let _ = self.news.send(News::Ready(self.spec.role));
                }
                wish = self.wishes.wait_for(|wish| *wish != Wish::Run) => break wish.map_or(Wish::Kill, |wish| *wish),
            }
        };
        if stopped == Wish::Stop {
            drop(lifeline);
            tokio::select! {
                status = child.wait() => {
                    tracing::debug!(role = self.spec.role, status = %status.unwrap_or_default(), "child stopped");
                    return None;
                }
                _ = self.wishes.wait_for(|wish| *wish == Wish::Kill) => {}
            }
        }
        tracing::warn!(role = self.spec.role, "killing a child");
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
        // What a child prints is for those who run it by hand; the launcher's own lines are for scripts.
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}
