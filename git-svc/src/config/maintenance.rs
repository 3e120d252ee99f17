//! Settings of background maintenance (`maintenance/`).

use std::time::Duration;

use clap::Args;
use ferrite_kit::config::seconds;

use crate::maintenance::options::MaintenanceOptions;

/// Times and thresholds of background maintenance. A threshold of 0 is switched off.
#[derive(Args, Clone, Debug)]
pub struct MaintenanceArgs {
    /// Seconds between two searches for repositories that need upkeep; 0 for no upkeep.
    #[arg(long = "upkeep-interval-seconds", env = "FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", default_value = "60", value_parser = fractional_seconds)]
    pub interval: Duration,

    /// Jobs at once; 0 for one per four cores, at least one.
    #[arg(long = "upkeep-jobs", env = "FERRITE_GIT_UPKEEP_JOBS", default_value_t = 0)]
    pub jobs: usize,

    /// Seconds that one step of a job may take.
    #[arg(long = "upkeep-deadline-seconds", env = "FERRITE_GIT_UPKEEP_DEADLINE_SECONDS", default_value = "3600", value_parser = seconds)]
    pub deadline: Duration,

    /// Loose objects from which on they are packed, at once.
    #[arg(long = "upkeep-loose-objects", env = "FERRITE_GIT_UPKEEP_LOOSE_OBJECTS", default_value_t = 250)]
    pub loose_objects: u64,

    /// Packs since the last index from which on they are combined, at once, as far as their sizes do not grow geometrically.
    #[arg(long = "upkeep-packs", env = "FERRITE_GIT_UPKEEP_PACKS", default_value_t = 16)]
    pub packs: u64,

    /// Updates after which a repository gets a new index with a bitmap, if a fifth of its objects came since the last one.
    #[arg(long = "upkeep-updates", env = "FERRITE_GIT_UPKEEP_UPDATES", default_value_t = 50)]
    pub updates: u64,

    /// Seconds after which a repository that changed gets a new index with a bitmap.
    #[arg(long = "upkeep-repack-seconds", env = "FERRITE_GIT_UPKEEP_REPACK_SECONDS", default_value = "86400", value_parser = seconds)]
    pub repack_after: Duration,

    /// Seconds after which all objects of a repository that changed are repacked.
    #[arg(long = "upkeep-full-seconds", env = "FERRITE_GIT_UPKEEP_FULL_SECONDS", default_value = "604800", value_parser = seconds)]
    pub full_after: Duration,

    /// Percent of a repository's bytes above which unreachable objects are removed as soon as they expire.
    #[arg(long = "upkeep-cruft-percent", env = "FERRITE_GIT_UPKEEP_CRUFT_PERCENT", default_value_t = 20)]
    pub cruft_percent: u64,

    /// Seconds after which a repository is checked again for missing objects.
    #[arg(long = "upkeep-check-seconds", env = "FERRITE_GIT_UPKEEP_CHECK_SECONDS", default_value = "2592000", value_parser = seconds)]
    pub check_after: Duration,

    /// Seconds that unreachable objects stay after upkeep first found them unreachable.
    #[arg(long = "upkeep-expire-seconds", env = "FERRITE_GIT_UPKEEP_EXPIRE_SECONDS", default_value = "1209600", value_parser = seconds)]
    pub expire_after: Duration,

    /// Loose refs above which all refs are packed.
    #[arg(long = "upkeep-loose-refs", env = "FERRITE_GIT_UPKEEP_LOOSE_REFS", default_value_t = 200)]
    pub loose_refs: u64,
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
            jobs: self.jobs,
            deadline: self.deadline,
            loose_objects: self.loose_objects,
            packs: self.packs,
            updates: self.updates,
            repack_after: self.repack_after,
            full_after: self.full_after,
            cruft_percent: self.cruft_percent,
            check_after: self.check_after,
            expire_after: self.expire_after,
            loose_refs: self.loose_refs,
        }
    }
}
