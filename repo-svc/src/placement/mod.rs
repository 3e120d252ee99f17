//! Tracks the git stores and chooses one for a new repository.

mod choice;
mod git_stores;

pub(crate) use git_stores::{GitStores, Reachable};

/// A git store as last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreStatus {
    /// Whether it responded to the last status request.
    pub(crate) is_reachable: bool,
    /// Status requests in a row without a response.
    pub(crate) missed: u32,
    /// Whether files can be written on its disk.
    pub(crate) is_writable: bool,
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
    /// When it last responded, in microseconds since 1970; zero if never.
    pub(crate) seen_us: i64,
}

impl StoreStatus {
    /// Counts one more request without a response and keeps the rest.
    pub(crate) fn unreachable(self) -> Self {
        Self { is_reachable: false, missed: self.missed.saturating_add(1), ..self }
    }
}
