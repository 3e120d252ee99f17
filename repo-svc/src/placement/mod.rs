//! The git stores as this process sees them, and the choice of one for a new repository.
//!
//! Not here: the table of stores (`store`), and the task that asks them (`background`).

mod choice;
mod git_stores;

pub(crate) use git_stores::{GitStores, Reachable};

/// A git store as it was last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreStatus {
    /// True if it responded when it was last asked.
    pub(crate) is_reachable: bool,
    /// Questions in a row that it did not respond to.
    pub(crate) missed: u32,
    /// True if files can be written on its disk.
    pub(crate) is_writable: bool,
    /// Bytes of the disk that are free.
    pub(crate) free_bytes: u64,
    /// Bytes of the disk in all.
    pub(crate) total_bytes: u64,
    /// When it last responded, in microseconds since 1970; zero if it never did.
    pub(crate) seen_us: i64,
}

impl StoreStatus {
    /// Returns the same as seen before, without a response now.
    pub(crate) fn unreachable(self) -> Self {
        Self { is_reachable: false, missed: self.missed.saturating_add(1), ..self }
    }
}
