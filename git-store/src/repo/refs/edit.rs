//! Changes of refs, and pages of ref lists.

use std::collections::HashSet;

use git2::Oid;

use crate::types::name::RefName;

/// A change of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// The full name of the ref.
    pub name: RefName,
    /// The expected current value; `None` if the ref must not exist.
    pub old: Option<Oid>,
    /// The new value; `None` to delete the ref.
    pub new: Option<Oid>,
}

/// Returns a test for refs that cannot exist next to those set by the edits, because one name is a
/// folder of the other.
pub fn clashes_with_set<'a>(edits: impl Iterator<Item = &'a RefEdit> + Clone) -> impl Fn(&RefName) -> bool {
    let set = edits.filter(|edit| edit.new.is_some()).map(|edit| &edit.name);
    let names: HashSet<_> = set.clone().map(RefName::as_bytes).collect();
    let parents: HashSet<_> = set.flat_map(RefName::parents).collect();
    move |name| parents.contains(name.as_bytes()) || name.parents().any(|parent| names.contains(parent))
}

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Page number, from 1.
    pub number: usize,
    /// Entries per page, at least 1.
    pub size: usize,
}

impl Page {
    /// Returns the indices of the page in a list of `total` entries.
    #[must_use]
    pub fn range(self, total: usize) -> std::ops::Range<usize> {
        let start = self.number.max(1).saturating_sub(1).saturating_mul(self.size).min(total);
        start..start.saturating_add(self.size).min(total)
    }
}
