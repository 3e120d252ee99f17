//! Limits that are not configurable. Not here: settings (`config`).

use std::time::Duration;

/// Largest file that can be written through the API, in bytes.
pub const MAX_FILE_BYTES: u64 = 50 << 20;

/// Largest delta that is taken, and largest object that it may be made from or make, in bytes: git's default of `core.bigFileThreshold`,
/// above which it makes none. Who reads such an object has it in memory as a whole.
pub const MAX_DELTA_OBJECT_BYTES: u64 = 512 << 20;
/// Most bytes that a delta may have beyond those of the object that it makes, and one more for each [`BYTES_PER_DELTA_EXCESS`] bytes of the
/// object. git and libgit2 make no delta that is longer than half the object.
pub const MAX_DELTA_EXCESS_BYTES: u64 = 1 << 10;
/// Bytes of an object for which its delta may have one byte more: half of what one byte inserts, in a delta that copies nothing.
pub const BYTES_PER_DELTA_EXCESS: u64 = 64;
/// Largest object or delta that libgit2 may load to put a file together, in bytes. Other files are left to a process of git.
pub const MAX_LOADED_DELTA_OBJECT_BYTES: u64 = 32 << 20;

/// Largest commit or annotated tag that is taken, header and message together, in bytes.
pub const MAX_COMMIT_BYTES: usize = 1 << 20;
/// Most parents of a commit that is taken. Of a stored one with more, those are followed.
pub const MAX_COMMIT_PARENTS: usize = 4096;
/// Bytes of a line that names a parent: `parent`, a blank, the id, and the end of the line.
pub const PARENT_LINE_BYTES: u64 = 48;
/// Largest tree that is taken, in bytes: a folder without those below it.
pub const MAX_TREE_BYTES: u64 = 32 << 20;
/// Most entries of a tree that is taken.
pub const MAX_TREE_ENTRIES: usize = 1_000_000;
/// Bytes of the shortest entry of a tree: `40000`, a blank, a letter, NUL, and the id.
pub const MIN_TREE_ENTRY_BYTES: u64 = 28;

/// Times and rates that a transfer must keep.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// Longest time in which no byte moves.
    pub idle: Duration,
    /// Longest time of a whole transfer or session.
    pub total: Duration,
    /// Longest pause of a client inside its request, before its rate is measured.
    pub pause: Duration,
    /// Fewest bytes a second that a client must send or take; 0 for no such limit.
    pub min_rate: u64,
    /// Longest time in which no byte moves in a session over SSH.
    pub session_idle: Duration,
}

/// Limits of one push.
#[derive(Clone, Copy, Debug)]
pub struct PushLimits {
    /// Largest pack, in bytes.
    pub bytes: u64,
    /// Most objects in the pack.
    pub objects: u64,
    /// Most refs that the push changes.
    pub refs: usize,
    /// Limits on what the pack contains.
    pub pack: PackLimits,
}

/// Limits on the contents of a pack from a client or a remote.
#[derive(Clone, Copy, Debug)]
pub struct PackLimits {
    /// Largest object, in bytes.
    pub object_bytes: u64,
    /// Bytes of all entries, inflated.
    pub inflated: Expansion,
    /// Bytes of the objects that deltas make.
    pub deltas: Expansion,
    /// CPU time of the git processes that take the pack.
    pub cpu: CpuAllowance,
}

/// A limit on bytes that grows with the bytes of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Bytes for each byte of the pack.
    pub factor: u64,
    /// Bytes for every pack.
    pub base_bytes: u64,
}

impl Expansion {
    /// Returns the limit for a pack of this size.
    pub fn limit(self, pack_bytes: u64) -> u64 {
        self.factor.saturating_mul(pack_bytes).saturating_add(self.base_bytes)
    }
}

/// A limit on CPU time that grows with the bytes of a pack.
#[derive(Clone, Copy, Debug)]
pub struct CpuAllowance {
    /// Time for every pack.
    pub base: Duration,
    /// Time for each MiB of the pack.
    pub per_mib: Duration,
}

impl CpuAllowance {
    /// Returns the limit for a pack of this size.
    pub fn limit(self, pack_bytes: u64) -> Duration {
        let mib = u32::try_from(pack_bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        self.base.saturating_add(self.per_mib.saturating_mul(mib))
    }
}
