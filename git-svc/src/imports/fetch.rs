//! One run of `git fetch`: its proxy, login and progress, and the limits that end it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use git_store::{
    git::{
        command::{CpuWatch, GitChild, feed, fetch::RemoteFetch, read_limited},
        fsck::Finding,
    },
    types::error::{GitError, says_full},
};
use git2::Oid;
use tokio::{
    io::AsyncReadExt as _,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    Inner,
    error::FetchError,
    progress::{Lines, Progress, Stage},
    proxy::Proxy,
    remote::{Remote, Transport},
};
use crate::{
    maintenance::running::JobHandle,
    transfer::push::{PackFlaw, RemoteLogins, UnreadPacks, find_flaw},
};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks between two updates of the progress in the import's row.
const CHECKS_PER_RECORD: u32 = 5;
/// Minimum rate while a remote sends a pack, averaged over the idle timeout.
const MIN_RECEIVED_BYTES_PER_SECOND: u64 = 256;
/// Idle timeouts that a remote may take to count and compress while it only sends keepalives.
const MAX_WAITING_PERIODS: u32 = 10;

type Reason = fn() -> FetchError;

/// Messages of git, which `LC_ALL=C` keeps constant, and the reasons they stand for, in order of
/// precedence.
const REASONS: &[(&str, Reason)] = &[
    ("not our ref", || FetchError::Changed),
    ("unadvertised object", || FetchError::Changed),
    ("did not send all necessary objects", || FetchError::BadObjects { finding: None }),
    ("fsck failed", || FetchError::BadObjects { finding: None }),
    ("fsck error", || FetchError::BadObjects { finding: None }),
    ("error in object", || FetchError::BadObjects { finding: None }),
    ("invalid commit", || FetchError::BadObjects { finding: None }),
    ("invalid tag", || FetchError::BadObjects { finding: None }),
    ("invalid index-pack output", || FetchError::BadObjects { finding: None }),
    ("pack has", || FetchError::BadObjects { finding: None }),
    ("pack is corrupted", || FetchError::BadObjects { finding: None }),
    ("unresolved delta", || FetchError::BadObjects { finding: None }),
    ("inflate", || FetchError::BadObjects { finding: None }),
    ("memory", || FetchError::BadObjects { finding: None }),
    ("bad pack", || FetchError::BadObjects { finding: None }),
    ("shallow", || FetchError::BadObjects { finding: None }),
    ("Authentication failed", || FetchError::Credentials),
    ("could not read Username", || FetchError::Credentials),
    ("could not read Password", || FetchError::Credentials),
    ("not found", || FetchError::NotFound),
    ("Operation too slow", || FetchError::Idle),
    ("Could not resolve", || FetchError::Unreachable),
    ("Failed to connect", || FetchError::Unreachable),
];

pub(super) struct FetchPlan<'a> {
    /// The repository, or for a wiki the repository it belongs to.
    pub(super) id: RepositoryId,
    pub(super) remote: &'a Remote,
    pub(super) repository: &'a Path,
    /// Directory for new objects; `None` for a repository that is still being built.
    pub(super) quarantine: Option<&'a Path>,
    pub(super) wants: &'a [Oid],
    /// Start of the job, for its time limit.
    pub(super) begin: Instant,
}

impl FetchPlan<'_> {
    fn objects(&self) -> PathBuf {
        self.quarantine.map_or_else(|| self.repository.join("objects"), Path::to_owned)
    }
}

impl Inner {
    /// Fetches objects. On success they are on disk, complete and checked. After an error the
    /// caller removes what was received.
    pub(super) async fn fetch(
        &self,
        plan: &FetchPlan<'_>,
        progress: &Progress,
        job: &JobHandle,
    ) -> Result<(), FetchError> {
        if plan.wants.is_empty() {
            return Ok(());
        }
        progress.begin_fetch();
        let (remote, budget) = (plan.remote, Arc::clone(&progress.budget));
        let proxy = Proxy::start(self.client.clone(), remote.clone(), budget, &self.life).await?;
        let login = remote.remote_login();
        let has_login = login.is_some();
        let logins = RemoteLogins::new([proxy.login()].into_iter().chain(login).collect());
        let session = self.sessions.open_remote_fetch(plan.id, logins);
        let (url, address) = match remote.transport {
            // git's own protocol has no proxies, so the proxy acts as the server.
            Transport::Git => (format!("git://{}{}", proxy.address(), remote.path()), None),
            Transport::Http | Transport::Https => (remote.url(), Some(proxy.address())),
        };
        let fetch = RemoteFetch {
            url: &url,
            protocol: remote.transport.scheme(),
            proxy: address,
            helper: &self.hooks.credential(),
            helper_env: session.env(),
            has_login,
            quarantine: plan.quarantine,
            idle: self.options.idle,
        };
        let child = self.git.fetch_remote(plan.repository, &fetch)?;
        let outcome = self.watch(child, plan, progress, job).await;
        metrics::counter!("ferrite_git_remote_received_bytes_total").increment(progress.budget.received());
        match outcome {
            Err(FetchError::Stopped) => return Err(FetchError::Stopped),
            Err(_) if proxy.is_refused() => return Err(FetchError::RefusedAddress),
            Err(_) if progress.budget.is_spent() => {
                return Err(FetchError::TooLarge { limit: progress.budget.max() });
            }
            outcome => outcome?,
        }
        self.check_packs(plan.objects(), plan.repository.to_owned()).await
    }

    /// Runs git to its end. Ends it early if the job is stopped or a limit is reached.
    async fn watch(
        &self,
        mut child: GitChild,
        plan: &FetchPlan<'_>,
        progress: &Progress,
        job: &JobHandle,
    ) -> Result<(), FetchError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let cpu = child.cpu_watch(self.options.pack.cpu);
        let input: String = plan.wants.iter().map(|id| format!("{id}\n")).collect();
        let mut lines = Lines::default();
        let listen = async {
            let Some(mut stderr) = stderr else { return };
            let mut buffer = vec![0; 8 << 10];
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                lines.push(&buffer[..count], progress);
            }
        };
        let ended = {
            let run = async {
                tokio::join!(feed(stdin, input.as_bytes()), listen, read_limited(stdout, 0));
                child.wait().await
            };
            tokio::select! {
                status = run => status.map_err(FetchError::from),
                () = job.stopped() => Err(FetchError::Stopped),
                () = self.life.stopping() => Err(FetchError::Stopped),
                () = sleep_until(plan.begin + self.options.total) => Err(FetchError::TimedOut),
                () = cpu_spent(cpu, progress) => Err(FetchError::CpuTime),
                error = self.guard(plan, progress) => Err(error),
            }
        };
        child.end().await;
        if ended?.success() {
            return Ok(());
        }
        let messages = lines.finish(progress);
        tracing::debug!(repo.id = %plan.id, messages, "a fetch failed");
        Err(reason(&messages))
    }

    /// Returns when a fetch exceeds a limit.
    async fn guard(&self, plan: &FetchPlan<'_>, progress: &Progress) -> FetchError {
        let (objects, max) = (plan.objects(), progress.budget.max());
        let slow =
            SlowLimit { from: plan.begin + self.options.slow_after, bytes_per_second: self.options.slowest_bytes };
        let mut stall = StallDetector::new(self.options.idle, slow, Instant::now());
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for check in 1_u32.. {
            ticks.tick().await;
            let folder = objects.clone();
            let on_disk = self.pool.run_blocking(move |_| Ok(pack_bytes(&folder))).await;
            // If the pool is busy, the next check tries again.
            if progress.budget.is_spent() || on_disk.is_ok_and(|bytes| bytes > max) {
                return FetchError::TooLarge { limit: max };
            }
            if let Err(error) = stall.check(Instant::now(), progress.budget.received(), progress.stage()) {
                return error;
            }
            if plan.quarantine.is_none() && check.is_multiple_of(CHECKS_PER_RECORD) {
                // Only for readers after a restart, so a failure is harmless: the end is recorded
                // in any case.
                drop(self.imports.progress(plan.id, &progress.state()).await);
            }
        }
        FetchError::TimedOut
    }

    /// Rejects packs that a push could not bring either.
    async fn check_packs(&self, objects: PathBuf, repository: PathBuf) -> Result<(), FetchError> {
        let limits = self.options.pack;
        let check = move |_: &_| {
            let unread = UnreadPacks { limits: &limits, repository: &repository };
            find_flaw(&objects, Some(unread)).map_err(GitError::io("reading a pack"))
        };
        match self.pool.run_blocking(check).await? {
            None => Ok(()),
            Some(PackFlaw::DeepChains) => Err(FetchError::BadObjects { finding: None }),
            Some(PackFlaw::TooLarge { .. } | PackFlaw::Sizes(_)) => Err(FetchError::OversizedObjects),
        }
    }
}

/// Returns when the processes of a fetch have used up the CPU time allowed for the received bytes.
/// Never returns without a watch.
async fn cpu_spent(cpu: Option<CpuWatch>, progress: &Progress) {
    match cpu {
        Some(cpu) => drop(cpu.spent(|| progress.budget.received()).await),
        None => std::future::pending().await,
    }
}

/// Derives the reason of a failure from git's own messages.
fn reason(messages: &str) -> FetchError {
    if says_full(messages) {
        return FetchError::StoreFull;
    }
    if let Some(finding) = Finding::first(messages) {
        return FetchError::BadObjects { finding: Some(finding) };
    }
    let found = REASONS.iter().find(|(words, _)| messages.contains(words));
    found.map_or(FetchError::Broken, |(_, reason)| reason())
}

/// Returns the bytes of the packs in an object directory, including unfinished ones.
fn pack_bytes(objects: &Path) -> u64 {
    let entries = fs::read_dir(objects.join("pack")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
}

/// Minimum rate of a remote after the first minutes.
#[derive(Clone, Copy, Debug)]
struct SlowLimit {
    from: Instant,
    bytes_per_second: u64,
}

/// Detects remotes that send nothing, or too little, while git waits for them.
#[derive(Debug)]
struct StallDetector {
    idle: Duration,
    slow: SlowLimit,
    /// Start of the current period, and the bytes received before it.
    since: Instant,
    before: u64,
    /// Periods in which the remote only sent keepalives.
    waiting_periods: u32,
    /// Whether any objects came. The period in which the first ones arrive is not measured.
    has_received: bool,
}

impl StallDetector {
    fn new(idle: Duration, slow: SlowLimit, now: Instant) -> Self {
        Self { idle, slow, since: now, before: 0, waiting_periods: 0, has_received: false }
    }

    fn check(&mut self, now: Instant, received: u64, stage: Stage) -> Result<(), FetchError> {
        let begins = stage == Stage::Receiving && !self.has_received;
        self.has_received |= begins;
        if stage == Stage::Indexing || begins {
            (self.since, self.before) = (now, received);
            return Ok(());
        }
        if now.duration_since(self.since) < self.idle {
            return Ok(());
        }
        let bytes = received.saturating_sub(self.before);
        let is_slow = bytes < self.idle.as_secs() * MIN_RECEIVED_BYTES_PER_SECOND;
        if stage == Stage::Waiting {
            self.waiting_periods += 1;
        }
        if bytes == 0 || (is_slow && stage == Stage::Receiving) || self.waiting_periods >= MAX_WAITING_PERIODS {
            return Err(FetchError::Idle);
        }
        let limit = self.slow.bytes_per_second;
        if stage == Stage::Receiving && self.since >= self.slow.from && bytes < self.idle.as_secs() * limit {
            return Err(FetchError::TooSlow { limit });
        }
        (self.since, self.before) = (now, received);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_drips_end_a_fetch_and_indexing_does_not() {
        let (idle, start) = (Duration::from_secs(60), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let none = SlowLimit { from: start, bytes_per_second: 0 };
        let mut stall = StallDetector::new(idle, none, start);
        assert!(stall.check(at(59), 0, Stage::Waiting).is_ok());
        assert!(matches!(stall.check(at(60), 0, Stage::Waiting), Err(FetchError::Idle)), "nothing at all");
        let mut stall = StallDetector::new(idle, none, start);
        assert!(stall.check(at(60), 100, Stage::Waiting).is_ok(), "a sign of life");
        assert!(stall.check(at(120), 100_000, Stage::Receiving).is_ok());
        assert!(stall.check(at(130), 100_000, Stage::Indexing).is_ok());
        assert!(stall.check(at(900), 100_000, Stage::Indexing).is_ok(), "git is at work");
        assert!(stall.check(at(959), 100_000, Stage::Receiving).is_ok());
        assert!(matches!(stall.check(at(960), 100_060, Stage::Receiving), Err(FetchError::Idle)), "a byte a second");
        let mut stall = StallDetector::new(idle, none, start);
        let ended = (1..=20).find(|period| stall.check(at(period * 60), period * 100, Stage::Waiting).is_err());
        assert_eq!(ended, Some(u64::from(MAX_WAITING_PERIODS)), "signs of life are not enough for ever");
    }

    #[test]
    fn a_slow_remote_has_time_at_first_and_needs_a_minimum_then() {
        let (idle, start) = (Duration::from_secs(60), Instant::now());
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let slow = SlowLimit { from: at(2), bytes_per_second: 1000 };
        let mut stall = StallDetector::new(idle, slow, start);
        assert!(stall.check(at(1), 20_000, Stage::Receiving).is_ok());
        assert!(stall.check(at(2), 40_000, Stage::Receiving).is_ok(), "the minute before counts for the first time");
        assert!(stall.check(at(3), 100_000, Stage::Receiving).is_ok(), "the minimum");
        let ended = stall.check(at(4), 159_999, Stage::Receiving);
        assert!(matches!(ended, Err(FetchError::TooSlow { limit: 1000 })), "a byte less");
        // A remote that counts and compresses sends keepalives, and git at work needs nothing.
        let mut stall = StallDetector::new(idle, slow, at(9));
        assert!(stall.check(at(10), 100, Stage::Waiting).is_ok());
        assert!(stall.check(at(11), 100, Stage::Indexing).is_ok());
        // Bytes that arrive late in a period need not be enough for the whole period.
        let mut stall = StallDetector::new(idle, slow, at(9));
        assert!(stall.check(at(10), 100, Stage::Waiting).is_ok());
        assert!(stall.check(at(11), 5_000, Stage::Receiving).is_ok());
        assert!(stall.check(at(12), 65_000, Stage::Receiving).is_ok());
        assert!(stall.check(at(13), 66_000, Stage::Receiving).is_err());
    }

    #[test]
    fn failures_of_git_have_neutral_reasons() {
        for (messages, expected) in [
            ("fatal: unable to write: No space left on device", "store_full"),
            ("error: Server does not allow request for unadvertised object 1111", "changed"),
            ("fatal: remote error: upload-pack: not our ref 1111", "changed"),
            (
                "error: object 1111: badTree: cannot be parsed as a tree\nfatal: fsck error in packed object",
                "bad_objects",
            ),
            ("fatal: Authentication failed for 'http://127.0.0.1/'", "credentials"),
            ("fatal: the remote end hung up unexpectedly", "broken"),
            ("", "broken"),
        ] {
            assert_eq!(reason(messages).label(), expected, "{messages}");
        }
        let id = "1".repeat(40);
        let refused =
            reason(&format!("error: object {id}: gitmodulesUrl: disallowed submodule url: -x\nfatal: fsck failed"));
        let expected = format!("the repository has invalid objects: `gitmodulesUrl` in object {id}");
        assert_eq!((refused.label(), refused.to_string()), ("bad_objects", expected));
    }
}
