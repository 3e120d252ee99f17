//! Changes of refs, and pages of lists of them.

use git2::Oid;

use crate::types::name::RefName;

/// One change of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// Which ref.
    pub name: RefName,
    /// Where it must be now; absent: it must not exist.
    pub old: Option<Oid>,
    /// Where it goes; absent: it is deleted.
    pub new: Option<Oid>,
}

/// A part of a list: pages count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub number: usize,
    /// At least 1.
    pub size: usize,
}

impl Page {
    /// The indices of the page in a list of `total`.
    #[must_use]
    pub fn range(self, total: usize) -> std::ops::Range<usize> {
        let start = self.number.max(1).saturating_sub(1).saturating_mul(self.size).min(total);
        start..start.saturating_add(self.size).min(total)
    }
}
