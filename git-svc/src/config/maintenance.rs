//! Settings of background maintenance (`maintenance/`).

use std::time::Duration;

use clap::Args;
use ferrite_core::config::seconds;

use crate::maintenance::options::{
    CHECK_INTERVAL, FULL_WINDOWS, LOOSE_OBJECTS_PER_PACK, MAX_CRUFT_PERCENT, MAX_LOOSE_REFS, MaintenanceOptions,
    STEP_DEADLINE, UPDATES_PER_BASE,
};

/// How often repositories are looked at, and when their objects are packed anew and removed. 0 switches a trigger off.
#[derive(Args, Clone, Debug)]
pub struct MaintenanceArgs {
    /// Seconds between two searches for repositories that need maintenance; 0 for no maintenance.
    #[arg(long = "upkeep-interval-seconds", env = "FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", default_value = "60", value_parser = fractional_seconds)]
    pub interval: Duration,

    /// Packs since the last index from which on they are combined, at once, as far as their sizes do not grow geometrically; and sixteen
    /// times as many loose objects, which are packed.
    #[arg(long = "upkeep-packs", env = "FERRITE_GIT_UPKEEP_PACKS", default_value_t = 16)]
    pub packs: u64,

    /// Seconds after which a repository that changed gets a new index with a bitmap; after seven times as many all of its objects are
    /// repacked.
    #[arg(long = "upkeep-repack-seconds", env = "FERRITE_GIT_UPKEEP_REPACK_SECONDS", default_value = "86400", value_parser = fractional_seconds)]
    pub repack_after: Duration,

    /// Seconds that unreachable objects stay after maintenance first found them unreachable.
    #[arg(long = "upkeep-expire-seconds", env = "FERRITE_GIT_UPKEEP_EXPIRE_SECONDS", default_value = "1209600", value_parser = seconds)]
    pub expire_after: Duration,
}

/// Parses a number of seconds, which may have a fraction.
fn fractional_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl MaintenanceArgs {
    /// Options of the service.
    pub(crate) fn options(&self) -> MaintenanceOptions {
        MaintenanceOptions {
            interval: self.interval,
            deadline: STEP_DEADLINE,
            loose_objects: self.packs.saturating_mul(LOOSE_OBJECTS_PER_PACK),
            packs: self.packs,
            updates: UPDATES_PER_BASE,
            repack_after: self.repack_after,
            full_after: self.repack_after.saturating_mul(FULL_WINDOWS),
            cruft_percent: MAX_CRUFT_PERCENT,
            check_after: CHECK_INTERVAL,
            expire_after: self.expire_after,
            loose_refs: MAX_LOOSE_REFS,
        }
    }
}
