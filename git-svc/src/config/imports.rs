use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use git_store::types::limits::PackLimits;

use crate::imports::options::{ImportOptions, Protocols};

/// Limits on imports and mirrors.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Allowed schemes of remotes, comma-separated: `http`, `https`, `git` (unprotected).
    #[arg(long, env = "FERRITE_GIT_MIGRATION_PROTOCOLS", default_value = "http,https")]
    pub migration_protocols: Protocols,

    /// Maximum size of an imported repository, and of one transfer, in bytes.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_MAX_BYTES", default_value_t = 10 << 30, value_parser = within::<u64>(1..))]
    pub migration_max_bytes: u64,

    /// Idle timeout of a remote, in seconds.
    #[arg(long = "migration-idle-seconds", env = "FERRITE_GIT_MIGRATION_IDLE_SECONDS", default_value = "60", value_parser = seconds_within(1..))]
    pub migration_idle: Duration,

    /// Maximum duration of an import or sync, in seconds.
    #[arg(long = "migration-total-seconds", env = "FERRITE_GIT_MIGRATION_TOTAL_SECONDS", default_value = "10800", value_parser = seconds_within(1..))]
    pub migration_total: Duration,

    /// Time after which an import or sync counts as slow, in seconds.
    #[arg(long = "migration-slow-seconds", env = "FERRITE_GIT_MIGRATION_SLOW_SECONDS", default_value = "120", value_parser = seconds_within(1..))]
    pub migration_slow: Duration,

    /// Minimum rate of a slow import or sync, in bytes per second; 0: no limit.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_SLOWEST_BYTES", default_value_t = 16 << 10, value_parser = within::<u64>(0..))]
    pub migration_slowest_bytes: u64,

    /// Concurrent imports, plus as many that were paused in favour of other users.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_AT_ONCE", default_value_t = 2, value_parser = within::<u16>(1..=256))]
    pub migrations_at_once: u16,

    /// Queued and running imports of this store.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_QUEUE", default_value_t = 1000, value_parser = within::<u32>(1..))]
    pub migration_queue: u32,

    /// Queued and running imports per user.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_USER_QUEUE", default_value_t = 100, value_parser = within::<u32>(1..))]
    pub migration_user_queue: u32,

    /// Concurrent mirror syncs, plus as many that were paused in favour of other users.
    #[arg(long, env = "FERRITE_GIT_MIRROR_AT_ONCE", default_value_t = 4, value_parser = within::<u16>(1..=256))]
    pub mirrors_at_once: u16,
}

impl ImportArgs {
    pub(crate) fn options(&self, pack: PackLimits) -> ImportOptions {
        ImportOptions {
            max_bytes: self.migration_max_bytes,
            idle: self.migration_idle,
            total: self.migration_total,
            imports_at_once: self.migrations_at_once.into(),
            max_waiting: self.migration_queue.into(),
            max_waiting_of_user: self.migration_user_queue.into(),
            slow_after: self.migration_slow,
            slowest_bytes: self.migration_slowest_bytes,
            syncs_at_once: self.mirrors_at_once.into(),
            protocols: self.migration_protocols,
            pack,
        }
    }
}
