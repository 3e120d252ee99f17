//! Settings that limit clients: concurrency, sizes and times.

use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use git_store::{
    git::command::GitOptions,
    types::limits::{MAX_FILE_BYTES, MAX_LOADED_DELTA_OBJECT_BYTES, TransferLimits},
};

use crate::admission::limiter::LimiterOptions;

/// Limits on clients and repositories, so that each leaves room for others.
#[derive(Args, Clone, Debug)]
pub struct LimitArgs {
    /// Idle timeout of a transfer, in seconds; ten times as long for SSH sessions.
    #[arg(long = "idle-seconds", env = "FERRITE_GIT_IDLE_SECONDS", default_value = "60", value_parser = seconds_within(1..))]
    pub idle: Duration,

    /// Maximum duration of a transfer or SSH session, in seconds.
    #[arg(long = "transfer-seconds", env = "FERRITE_GIT_TRANSFER_SECONDS", default_value = "3600", value_parser = seconds_within(1..))]
    pub transfer: Duration,

    /// Minimum rate of a client, in bytes per second; 0: no limit.
    #[arg(long = "slowest-bytes", env = "FERRITE_GIT_SLOWEST_BYTES", default_value_t = 1024, value_parser = within::<u64>(0..))]
    pub slowest: u64,

    /// Maximum size of a file written through the API, in bytes.
    #[arg(long, env = "FERRITE_GIT_MAX_FILE_BYTES", default_value_t = MAX_FILE_BYTES, value_parser = within::<u64>(1..=MAX_FILE_BYTES))]
    pub max_file_bytes: u64,

    /// Retention of commit statuses, in days; 0: no limit.
    #[arg(long, env = "FERRITE_GIT_STATUS_RETENTION_DAYS", default_value_t = 365, value_parser = within::<u16>(0..=u16::MAX))]
    pub status_retention_days: u16,

    /// Limits on concurrent work and its queue.
    #[command(flatten)]
    pub limiters: LimiterArgs,

    /// Limits on one git process.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// Limits on concurrent work by class. 0 selects a number based on the cores.
#[derive(Args, Clone, Debug)]
pub struct LimiterArgs {
    /// Queued requests per repository; twice as many per client.
    #[arg(long = "waiting", env = "FERRITE_GIT_WAITING", default_value_t = 32, value_parser = within::<u16>(0..=u16::MAX))]
    pub waiting: u16,

    /// Time limit in the queue, in seconds.
    #[arg(long = "wait-seconds", env = "FERRITE_GIT_WAIT_SECONDS", default_value = "30", value_parser = seconds_within(0..))]
    pub timeout: Duration,

    /// Concurrent light work, such as fetches and SSH sessions; 0: 64 per core.
    #[arg(long, env = "FERRITE_GIT_LIGHT", default_value_t = 0, value_parser = within::<u16>(0..=u16::MAX))]
    pub light: u16,

    /// Concurrent clones from the pack cache.
    #[arg(long, env = "FERRITE_GIT_CLONES", default_value_t = 1024, value_parser = within::<u16>(1..=u16::MAX))]
    pub clones: u16,

    /// Concurrent heavy work, such as packing and history walks; 0: one per core.
    #[arg(long, env = "FERRITE_GIT_HEAVY", default_value_t = 0, value_parser = within::<u16>(0..=u16::MAX))]
    pub heavy: u16,

    /// Concurrent pushes; 0: two per core, at least four.
    #[arg(long, env = "FERRITE_GIT_PUSHES", default_value_t = 0, value_parser = within::<u16>(0..=u16::MAX))]
    pub pushes: u16,
}

/// Limits on one git process.
#[derive(Args, Clone, Debug)]
pub struct ProcessArgs {
    /// Threads per packing process; 0: two, or one on a single core.
    #[arg(long, env = "FERRITE_GIT_PACK_THREADS", default_value_t = 0, value_parser = within::<u16>(0..=u16::MAX))]
    pub pack_threads: u16,

    /// Memory per packing thread to search for deltas, in bytes.
    #[arg(long, env = "FERRITE_GIT_PACK_WINDOW_BYTES", default_value_t = 100 << 20, value_parser = within::<u64>(1..))]
    pub pack_window_bytes: u64,

    /// Size above which files are streamed and stored without deltas, in bytes.
    #[arg(long, env = "FERRITE_GIT_BIG_FILE_BYTES", default_value_t = MAX_LOADED_DELTA_OBJECT_BYTES, value_parser = within::<u64>(1..=MAX_LOADED_DELTA_OBJECT_BYTES))]
    pub big_file_bytes: u64,

    /// Address space per git process, in bytes; 0: no limit.
    #[arg(long, env = "FERRITE_GIT_PROCESS_MEMORY_BYTES", default_value_t = 8 << 30, value_parser = within::<u64>(0..))]
    pub process_memory_bytes: u64,

    /// Memory to rebuild large files from deltas, in bytes; half of it per client.
    #[arg(long, env = "FERRITE_GIT_DELTA_MEMORY_BYTES", default_value_t = 1 << 30, value_parser = within::<u64>(1..))]
    pub delta_memory_bytes: u64,

    /// CPU time per git process, in seconds; 0: no limit.
    #[arg(long = "process-cpu-seconds", env = "FERRITE_GIT_PROCESS_CPU_SECONDS", default_value = "7200", value_parser = seconds_within(0..))]
    pub process_cpu: Duration,
}

impl LimitArgs {
    /// Returns how long commit statuses are kept; `None` if forever.
    pub(crate) fn status_retention(&self) -> Option<Duration> {
        let days = u64::from(self.status_retention_days);
        (days > 0).then(|| Duration::from_secs(days * 24 * 3600))
    }

    pub(crate) fn transfers(&self) -> TransferLimits {
        let Self { idle, transfer: total, slowest: min_rate, .. } = *self;
        TransferLimits { idle, total, pause: idle / 2, min_rate, session_idle: idle.saturating_mul(10) }
    }
}

impl LimiterArgs {
    pub(crate) fn options(&self) -> LimiterOptions {
        LimiterOptions {
            queue_per_repository: self.waiting.into(),
            queue_timeout: self.timeout,
            clones: self.clones.into(),
            light: self.light.into(),
            heavy: self.heavy.into(),
            pushes: self.pushes.into(),
        }
    }
}

impl ProcessArgs {
    pub(crate) fn git_options(&self) -> GitOptions {
        let defaults = GitOptions::default();
        let pack_threads = if self.pack_threads == 0 { defaults.pack_threads } else { self.pack_threads.into() };
        let (pack_window_bytes, big_file_bytes) = (self.pack_window_bytes, self.big_file_bytes);
        let (process_memory_bytes, process_cpu) = (self.process_memory_bytes, self.process_cpu);
        GitOptions { pack_threads, pack_window_bytes, big_file_bytes, process_memory_bytes, process_cpu, ..defaults }
    }
}

#[cfg(test)]
impl Default for LimitArgs {
    fn default() -> Self {
        tests::parse(&[]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ferrite_proto::id::RepositoryId;

    use super::*;
    use crate::admission::limiter::{ClientKey, Limiters};

    #[derive(Parser)]
    struct Outer {
        #[command(flatten)]
        limits: LimitArgs,
    }

    pub(super) fn parse(flags: &[&str]) -> Result<LimitArgs, clap::Error> {
        Outer::try_parse_from([&["test"], flags].concat()).map(|outer| outer.limits)
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let limits = parse(&[]).unwrap();
        let transfers = limits.transfers();
        assert_eq!((transfers.idle.as_secs(), transfers.total.as_secs(), transfers.min_rate), (60, 3600, 1024));
        assert_eq!((transfers.pause.as_secs(), transfers.session_idle.as_secs()), (30, 600));
        assert_eq!((limits.limiters.waiting, limits.limiters.timeout.as_secs()), (32, 30));
        assert_eq!((limits.limiters.clones, limits.max_file_bytes), (1024, 50 << 20));
        assert_eq!(limits.process.delta_memory_bytes, 1 << 30);
        assert_eq!((limits.process.pack_window_bytes, limits.process.big_file_bytes), (100 << 20, 32 << 20));
        assert_eq!((limits.process.process_memory_bytes, limits.process.process_cpu.as_secs()), (8 << 30, 7200));
    }

    #[test]
    fn limits_that_would_end_every_transfer_are_refused() {
        for flag in
            ["--idle-seconds=0", "--transfer-seconds=0", "--transfer-seconds=x", "--max-file-bytes=0", "--clones=0"]
        {
            assert!(parse(&[flag]).is_err(), "{flag}");
        }
        assert!(parse(&["--max-file-bytes=52428801"]).is_err());
        assert!(parse(&["--big-file-bytes=33554433"]).is_err(), "git would write deltas that are not loaded");
        assert_eq!(parse(&["--slowest-bytes=0"]).unwrap().slowest, 0);
    }

    #[tokio::test]
    async fn a_repository_has_three_quarters_of_the_clones_and_a_client_half() {
        let limits = parse(&["--clones=40", "--wait-seconds=0"]).unwrap();
        let limiter = Limiters::new(&limits.limiters.options()).clone;
        let mut held = Vec::new();
        for (repository, user, expected) in [(1, 1, 20), (1, 2, 10), (2, 2, 10), (2, 3, 0)] {
            let before = held.len();
            while let Ok(permit) = limiter.acquire(RepositoryId(repository), &ClientKey::User(user)).await {
                held.push(permit);
            }
            assert_eq!(held.len() - before, expected, "repository {repository}, user {user}");
        }
        assert_eq!(limiter.running(), 40);
    }
}
