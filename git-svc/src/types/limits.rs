//! Limits that are not configurable. Not here: settings (`config`).

/// Largest file that can be written through the API, in bytes.
pub const MAX_FILE_BYTES: u64 = 50 << 20;
