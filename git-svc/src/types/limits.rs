//! Limits that are not configurable. Not here: settings (`config`).

use std::time::Duration;

/// Largest file that can be written through the API, in bytes.
pub const MAX_FILE_BYTES: u64 = 50 << 20;

/// Times and rates that a transfer must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferLimits {
    /// Longest time in which no byte moves.
    pub(crate) idle: Duration,
    /// Longest time of a whole transfer or session.
    pub(crate) total: Duration,
    /// Longest pause of a client inside its request, before its rate is measured.
    pub(crate) pause: Duration,
    /// Fewest bytes a second that a client must send or take; 0 for no such limit.
    pub(crate) min_rate: u64,
    /// Longest time in which no byte moves in a session over SSH.
    pub(crate) session_idle: Duration,
}

/// Limits of one push.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PushLimits {
    /// Largest pack, in bytes.
    pub(crate) bytes: u64,
    /// Most objects in the pack.
    pub(crate) objects: u64,
    /// Most refs that the push changes.
    pub(crate) refs: usize,
}
