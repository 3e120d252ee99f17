//! Limits that are not configurable.

use std::time::Duration;

/// Largest file that can be written through the API, in bytes.
pub const MAX_FILE_BYTES: u64 = 50 << 20;

/// Largest delta accepted, and largest base or result of one, in bytes. This is git's default of
/// `core.bigFileThreshold`, above which it makes no deltas. Readers load such an object into memory
/// as a whole.
pub const MAX_DELTA_OBJECT_BYTES: u64 = 512 << 20;
/// How far a delta may exceed its result, in bytes, plus one byte per [`BYTES_PER_DELTA_EXCESS`]
/// bytes of the result. git and libgit2 make no delta longer than half the result.
pub const MAX_DELTA_EXCESS_BYTES: u64 = 1 << 10;
/// Result bytes per extra delta byte: about half of what one insert instruction covers.
pub const BYTES_PER_DELTA_EXCESS: u64 = 64;
/// Largest object or delta, in bytes, that libgit2 may load. git handles larger ones.
pub const MAX_LOADED_DELTA_OBJECT_BYTES: u64 = 32 << 20;

/// Largest commit or annotated tag accepted, in bytes, header and message together.
pub const MAX_COMMIT_BYTES: usize = 1 << 20;
/// Maximum number of parents of an accepted commit, and of those read from a stored one.
pub const MAX_COMMIT_PARENTS: usize = 4096;
/// Bytes of a `parent` line: `parent`, a space, the id, and the line feed.
pub const PARENT_LINE_BYTES: u64 = 48;
/// Largest tree object accepted, in bytes, without subtrees.
pub const MAX_TREE_BYTES: u64 = 32 << 20;
/// Maximum number of entries of an accepted tree.
pub const MAX_TREE_ENTRIES: usize = 1_000_000;
/// Bytes of the shortest tree entry: `40000`, a space, one letter, NUL, and the id.
pub const MIN_TREE_ENTRY_BYTES: u64 = 28;

/// Timeouts and the minimum rate of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// Idle timeout.
    pub idle: Duration,
    /// Time limit for a whole transfer or session.
    pub total: Duration,
    /// Longest pause of a client within its request before its rate is measured.
    pub pause: Duration,
    /// Minimum rate at which a client must send or receive, in bytes per second; 0 for none.
    pub min_rate: u64,
    /// Idle timeout of an SSH session.
    pub session_idle: Duration,
}

/// Limits of one push.
#[derive(Clone, Copy, Debug)]
pub struct PushLimits {
    /// Largest pack, in bytes.
    pub bytes: u64,
    /// Maximum number of objects in the pack.
    pub objects: u64,
    /// Maximum number of refs changed by the push.
    pub refs: usize,
    /// Limits on what the pack contains.
    pub pack: PackLimits,
}

/// Limits on the contents of a pack from a client or a remote.
#[derive(Clone, Copy, Debug)]
pub struct PackLimits {
    /// Largest object, in bytes.
    pub object_bytes: u64,
    /// Limit on the inflated bytes of all entries.
    pub inflated: Expansion,
    /// Limit on the bytes of all objects built from deltas.
    pub deltas: Expansion,
    /// Limit on the CPU time of the git processes that receive the pack.
    pub cpu: CpuAllowance,
}

/// A byte limit that grows with the size of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Bytes allowed per byte of the pack.
    pub factor: u64,
    /// Bytes allowed for any pack.
    pub base_bytes: u64,
}

impl Expansion {
    /// Returns the limit for a pack of this size.
    pub fn limit(self, pack_bytes: u64) -> u64 {
        self.factor.saturating_mul(pack_bytes).saturating_add(self.base_bytes)
    }
}

/// A limit on CPU time that grows with the size of a pack.
#[derive(Clone, Copy, Debug)]
pub struct CpuAllowance {
    /// Time allowed for any pack.
    pub base: Duration,
    /// Extra time per MiB of the pack.
    pub per_mib: Duration,
}

impl CpuAllowance {
    /// Returns the limit for a pack of this size.
    pub fn limit(self, pack_bytes: u64) -> Duration {
        let mib = u32::try_from(pack_bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        self.base.saturating_add(self.per_mib.saturating_mul(mib))
    }
}
