//! Settings of migrations and mirrors (`migration/`).

use std::time::Duration;

use clap::{Args, value_parser};

use super::limits::at_least_one_second;
use crate::{
    migration::options::{MigrationOptions, Protocols},
    types::limits::PackLimits,
};

/// Limits of migrations and mirrors.
#[derive(Args, Clone, Debug)]
pub struct MigrationArgs {
    /// Schemes of remotes, separated by commas: `http`, `https`, and `git`, which protects nothing.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_PROTOCOLS", default_value = "http,https")]
    pub migration_protocols: Protocols,

    /// Bytes that a repository from elsewhere may have, and that one transfer may receive.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_MAX_BYTES", default_value_t = 10 << 30, value_parser = value_parser!(u64).range(1..))]
    pub migration_max_bytes: u64,

    /// Seconds after which a remote that sends nothing is given up.
    #[arg(long = "migration-idle-seconds", env = "FERRITE_GIT_MIGRATION_IDLE_SECONDS", default_value = "60", value_parser = at_least_one_second)]
    pub migration_idle: Duration,

    /// Seconds that a whole migration or sync may take.
    #[arg(long = "migration-total-seconds", env = "FERRITE_GIT_MIGRATION_TOTAL_SECONDS", default_value = "10800", value_parser = at_least_one_second)]
    pub migration_total: Duration,

    /// Migrations at once.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_AT_ONCE", default_value_t = 2, value_parser = value_parser!(u16).range(1..=256))]
    pub migrations_at_once: u16,

    /// Migrations that may wait or run; more are refused.
    #[arg(long, env = "FERRITE_GIT_MIGRATION_QUEUE", default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    pub migration_queue: u32,

    /// Syncs of mirrors at once.
    #[arg(long, env = "FERRITE_GIT_MIRROR_AT_ONCE", default_value_t = 4, value_parser = value_parser!(u16).range(1..=256))]
    pub mirrors_at_once: u16,
}

impl MigrationArgs {
    /// Options of the service.
    pub(crate) fn options(&self, pack: PackLimits) -> MigrationOptions {
        MigrationOptions {
            max_bytes: self.migration_max_bytes,
            idle: self.migration_idle,
            total: self.migration_total,
            migrations_at_once: self.migrations_at_once.into(),
            max_waiting: usize::try_from(self.migration_queue).unwrap_or(usize::MAX),
            syncs_at_once: self.mirrors_at_once.into(),
            protocols: self.migration_protocols,
            pack,
        }
    }
}
