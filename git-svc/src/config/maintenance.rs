use std::time::Duration;

use clap::{Args, builder::TypedValueParser};
use ferrite_core::config::{MAX_SECONDS, seconds_within, within};

use crate::maintenance::options::{
    CHECK_INTERVAL, FULL_WINDOWS, LOOSE_OBJECTS_PER_PACK, MAX_CRUFT_PERCENT, MAX_LOOSE_REFS, MaintenanceOptions,
    STEP_DEADLINE, UPDATES_PER_BASE,
};

/// When repositories are maintained: indexed, repacked and cleaned up. 0 disables a trigger.
#[derive(Args, Clone, Debug)]
pub struct MaintenanceArgs {
    /// Interval between searches for repositories to maintain, in seconds; 0: no maintenance.
    #[arg(long = "upkeep-interval-seconds", env = "FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", default_value = "60", value_parser = fractional_seconds())]
    pub interval: Duration,

    /// Consolidate a repository once it has this many new packs, or 16 times as many loose objects.
    #[arg(long = "upkeep-packs", env = "FERRITE_GIT_UPKEEP_PACKS", default_value_t = 16, value_parser = within::<u64>(0..))]
    pub packs: u64,

    /// Time until a changed repository is reindexed, in seconds; 7 times that until a full repack.
    #[arg(long = "upkeep-repack-seconds", env = "FERRITE_GIT_UPKEEP_REPACK_SECONDS", default_value = "86400", value_parser = fractional_seconds())]
    pub repack_after: Duration,

    /// Retention of unreachable objects, in seconds.
    #[arg(long = "upkeep-expire-seconds", env = "FERRITE_GIT_UPKEEP_EXPIRE_SECONDS", default_value = "1209600", value_parser = seconds_within(0..))]
    pub expire_after: Duration,
}

/// Parses seconds, which can have a fraction.
fn fractional_seconds() -> impl TypedValueParser<Value = Duration> {
    within::<f64>(0.0..=f64::from(MAX_SECONDS)).map(Duration::from_secs_f64)
}

impl MaintenanceArgs {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Outer {
        #[command(flatten)]
        maintenance: MaintenanceArgs,
    }

    #[test]
    fn times_may_have_a_fraction_and_have_an_end() {
        let parse = |flag: &str| Outer::try_parse_from(["test", flag]).map(|outer| outer.maintenance);
        let short = parse("--upkeep-interval-seconds=0.25").unwrap();
        assert_eq!(short.interval, Duration::from_millis(250));
        assert_eq!(parse("--upkeep-interval-seconds=0").unwrap().interval, Duration::ZERO);
        for wrong in ["-1", "-0.5", "315360000.5", "1e300", "inf", "NaN"] {
            let refusal = parse(&format!("--upkeep-repack-seconds={wrong}")).unwrap_err().to_string();
            assert!(refusal.contains("must be 0 to 315,360,000"), "{wrong}: {refusal}");
        }
        assert!(parse("--upkeep-repack-seconds=soon").is_err() && parse("--upkeep-expire-seconds=315360001").is_err());
    }
}
