use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use git_store::types::limits::PackLimits;

use crate::imports::options::{ImportOptions, Protocols};

/// Limits of imports and mirrors.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Schemes of remotes, separated by commas: `http`, `https`, and `git`, which protects nothing.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_PROTOCOLS", default_value = "http,https")]
    pub migration_protocols: Protocols,

    /// Bytes that a repository from elsewhere may have, and that one transfer may receive.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_MAX_BYTES", default_value_t = 10 << 30, value_parser = within::<u64>(1..))]
    pub migration_max_bytes: u64,

    /// Seconds after which a remote that sends nothing is given up.
    #[arg(long = "migration-idle-seconds", env = "FERRITE_GIT_MIGRATION_IDLE_SECONDS", default_value = "60", value_parser = seconds_within(1..))]
    pub migration_idle: Duration,

    /// Seconds that a whole import or sync may take.
    #[arg(long = "migration-total-seconds", env = "FERRITE_GIT_MIGRATION_TOTAL_SECONDS", default_value = "10800", value_parser = seconds_within(1..))]
    pub migration_total: Duration,

    /// Seconds after which an import or sync is slow: its remote has to send a minimum of bytes from then on, and it leaves its place
    /// to those of other users that wait.
    #[arg(long = "migration-slow-seconds", env = "FERRITE_GIT_MIGRATION_SLOW_SECONDS", default_value = "120", value_parser = seconds_within(1..))]
    pub migration_slow: Duration,

    /// Bytes a second, averaged over the idle time, that the remote of a slow import or sync has to send; 0 for no minimum.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_SLOWEST_BYTES", default_value_t = 16 << 10, value_parser = within::<u64>(0..))]
    pub migration_slowest_bytes: u64,

    /// Imports at once. As many again go on beside them that left their places to those of other users.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_AT_ONCE", default_value_t = 2, value_parser = within::<u16>(1..=256))]
    pub migrations_at_once: u16,

    /// Imports that may wait or run; more are refused.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_QUEUE", default_value_t = 1000, value_parser = within::<u32>(1..))]
    pub migration_queue: u32,

    /// Imports of one user that may wait or run; more are refused.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_USER_QUEUE", default_value_t = 100, value_parser = within::<u32>(1..))]
    pub migration_user_queue: u32,

    /// Syncs of mirrors at once. As many again go on beside them that left their places to those of other users.
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
