//! Settings that limit the contents of a pack in a push, import or sync.

use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use git_store::types::limits::{CpuAllowance, Expansion, PackLimits};

/// Limits on the contents of a pack.
#[derive(Args, Clone, Debug)]
pub struct PackArgs {
    /// Maximum size of an object in a push, import or sync, in bytes.
    #[arg(long, env = "FERRITE_GIT_MAX_OBJECT_BYTES", default_value_t = 4 << 30, value_parser = within::<u64>(1..))]
    pub max_object_bytes: u64,

    /// Maximum expansion of a pack: inflated bytes per received byte.
    #[arg(long, env = "FERRITE_GIT_MAX_PACK_EXPANSION", default_value_t = 100, value_parser = within::<u64>(1..))]
    pub max_pack_expansion: u64,

    /// Inflated bytes allowed for any pack, in addition to its expansion.
    #[arg(long, env = "FERRITE_GIT_PACK_EXPANSION_BASE_BYTES", default_value_t = 64 << 20, value_parser = within::<u64>(0..))]
    pub pack_expansion_base_bytes: u64,

    /// Maximum expansion by deltas: bytes of objects per received byte.
    #[arg(long, env = "FERRITE_GIT_MAX_DELTA_EXPANSION", default_value_t = 1000, value_parser = within::<u64>(1..))]
    pub max_delta_expansion: u64,

    /// Bytes of objects that deltas may produce in any pack, in addition to the expansion.
    #[arg(long, env = "FERRITE_GIT_DELTA_EXPANSION_BASE_BYTES", default_value_t = 1 << 30, value_parser = within::<u64>(0..))]
    pub delta_expansion_base_bytes: u64,

    /// CPU time per push, import or sync, in seconds, in addition to that per MiB.
    #[arg(long = "pack-cpu-seconds", env = "FERRITE_GIT_PACK_CPU_SECONDS", default_value = "60", value_parser = seconds_within(0..))]
    pub pack_cpu: Duration,

    /// CPU time per received MiB of a push, import or sync, in milliseconds.
    #[arg(long, env = "FERRITE_GIT_PACK_CPU_MILLISECONDS_PER_MIB", default_value_t = 3000, value_parser = within::<u64>(0..))]
    pub pack_cpu_milliseconds_per_mib: u64,
}

impl PackArgs {
    pub(crate) fn limits(&self) -> PackLimits {
        PackLimits {
            object_bytes: self.max_object_bytes,
            inflated: Expansion { factor: self.max_pack_expansion, base_bytes: self.pack_expansion_base_bytes },
            deltas: Expansion { factor: self.max_delta_expansion, base_bytes: self.delta_expansion_base_bytes },
            cpu: CpuAllowance {
                base: self.pack_cpu,
                per_mib: Duration::from_millis(self.pack_cpu_milliseconds_per_mib),
            },
        }
    }
}

#[cfg(test)]
impl Default for PackArgs {
    fn default() -> Self {
        tests::parse(&[]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Outer {
        #[command(flatten)]
        packs: PackArgs,
    }

    pub(super) fn parse(flags: &[&str]) -> Result<PackArgs, clap::Error> {
        Outer::try_parse_from([&["test"], flags].concat()).map(|outer| outer.packs)
    }

    #[test]
    fn the_limits_grow_with_a_pack_and_a_small_one_has_something_too() {
        let limits = parse(&[]).unwrap().limits();
        assert_eq!(limits.object_bytes, 4 << 30);
        assert_eq!((limits.inflated.limit(0), limits.inflated.limit(1 << 20)), (64 << 20, 164 << 20));
        assert_eq!((limits.deltas.limit(0), limits.deltas.limit(1 << 20)), (1 << 30, 2024 << 20));
        assert_eq!((limits.cpu.limit(0).as_secs(), limits.cpu.limit(1 << 30).as_secs()), (60, 60 + 3 * 1024));
        assert_eq!(limits.inflated.limit(u64::MAX), u64::MAX);
        for flag in ["--max-object-bytes=0", "--max-pack-expansion=0", "--max-delta-expansion=0"] {
            assert!(parse(&[flag]).is_err(), "{flag}");
        }
    }
}
