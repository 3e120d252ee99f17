//! The refs of a repository in memory, sorted by name. Copies of a table share its parts, so a
//! change copies only one part.

use std::{fs, io, ops::Range, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use git2::{ObjectType, Oid};

use super::edit::Page;
use crate::types::name::RefName;

/// Refs per part. A part twice as large is split.
const ENTRIES_PER_PART: usize = 256;
/// Bytes of a ref besides its name, with the allocator's overhead.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<RefEntry>() + 16;

/// A ref and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEntry {
    /// The full name.
    pub name: RefName,
    /// Its object: a commit for branches, any object for other refs.
    pub target: Oid,
    /// The object that an annotated tag leads to, through nested tags.
    pub peeled: Option<Oid>,
    /// Type of the peeled object, never a tag; [`ObjectType::Any`] if unknown.
    pub kind: ObjectType,
}

/// A page of refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefPage {
    /// The refs, sorted by name.
    pub entries: Vec<RefEntry>,
    /// Refs on all pages.
    pub total: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    Set(RefEntry),
    Removed(RefName),
}

/// State of a file, to detect that it was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileStamp {
    pub(super) fn new(data: &fs::Metadata) -> Self {
        Self { inode: data.ino(), size: data.size(), modified: (data.mtime(), data.mtime_nsec()) }
    }

    fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(data) => Ok(Some(Self::new(&data))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Stamps of files that git always replaces as a whole, to detect changes without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// `HEAD`; `None` if the repository does not exist.
    pub(super) head: Option<FileStamp>,
    /// `packed-refs`; `None` if it does not exist.
    pub(super) packed: Option<FileStamp>,
}

impl Stamp {
    pub(super) fn of(repository: &Path) -> io::Result<Self> {
        let head = FileStamp::of(&repository.join("HEAD"))?;
        Ok(Self { head, packed: FileStamp::of(&repository.join("packed-refs"))? })
    }
}

/// The refs of a repository that clients may see.
#[derive(Clone, Debug)]
pub struct RefTable {
    /// Parts of the sorted refs, none empty.
    parts: Vec<Arc<Vec<RefEntry>>>,
    bytes: usize,
    head: Option<RefName>,
    is_plain: bool,
    pub(super) stamp: Stamp,
}

impl RefTable {
    /// Creates a table from refs sorted by name without duplicates.
    pub(super) fn new(sorted: Vec<RefEntry>, head: Option<RefName>, is_plain: bool, stamp: Stamp) -> Self {
        let bytes = sorted.iter().map(weight).sum();
        let (mut parts, mut rest) =
            (Vec::with_capacity(sorted.len() / ENTRIES_PER_PART + 1), sorted.into_iter().peekable());
        while rest.peek().is_some() {
            parts.push(Arc::new(rest.by_ref().take(ENTRIES_PER_PART).collect()));
        }
        Self { parts, bytes, head, is_plain, stamp }
    }

    /// Returns the approximate size of the table in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the branch of HEAD, which need not exist; `None` if HEAD is not on a branch, so the
    /// table is not plain.
    #[must_use]
    pub fn head(&self) -> Option<&RefName> {
        self.head.as_ref()
    }

    /// Returns whether git sees exactly these refs: no symbolic ref but HEAD, no broken ref, no
    /// missing object, and no name that [`RefName`] rejects.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the number of refs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Returns whether there are no refs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the ref with this name.
    #[must_use]
    pub fn find(&self, name: &RefName) -> Option<&RefEntry> {
        let part = self.parts.get(self.part_of(name))?;
        part.binary_search_by(|entry| entry.name.cmp(name)).ok().and_then(|index| part.get(index))
    }

    /// Returns the indices of the refs that start with `prefix`.
    #[must_use]
    pub fn span(&self, prefix: &[u8]) -> Range<usize> {
        let start = self.count_while(|name| name < prefix);
        start..self.count_while(|name| name < prefix || name.starts_with(prefix))
    }

    /// Returns whether a ref with this name could not exist next to one in the table, because one
    /// name is a folder of the other. Ignores refs for which `is_gone` is true.
    pub fn clashes_with(&self, name: &RefName, is_gone: impl Fn(&RefName) -> bool) -> bool {
        let below = [name.as_bytes(), b"/"].concat();
        let above = name.parents().filter_map(|parent| RefName::parse(parent).ok());
        let mut above = above.filter_map(|parent| self.find(&parent));
        let mut below = self.rows(self.span(&below));
        above.any(|entry| !is_gone(&entry.name)) || below.any(|entry| !is_gone(&entry.name))
    }

    /// Iterates over the refs at these indices.
    pub fn rows(&self, range: Range<usize>) -> impl Iterator<Item = &RefEntry> {
        let (mut skip, mut first) = (range.start, 0);
        while let Some(part) = self.parts.get(first).filter(|part| part.len() <= skip) {
            skip -= part.len();
            first += 1;
        }
        let parts = self.parts.get(first..).unwrap_or_default();
        parts.iter().flat_map(|part| part.iter()).skip(skip).take(range.len())
    }

    /// Returns the indices of the refs that start with `prefix`, without those of pull requests:
    /// before and after these.
    #[must_use]
    pub fn spans_without_pulls(&self, prefix: &[u8]) -> [Range<usize>; 2] {
        let (all, pulls) = (self.span(prefix), self.span(b"refs/pull/"));
        [all.start..pulls.start.clamp(all.start, all.end), pulls.end.clamp(all.start, all.end)..all.end]
    }

    /// Returns a page of the refs that start with `prefix`, sorted by name, without those of pull
    /// requests.
    #[must_use]
    pub fn page(&self, prefix: &[u8], page: Page) -> RefPage {
        let [first, second] = self.spans_without_pulls(prefix);
        let total = first.len() + second.len();
        let wanted = page.range(total);
        let row =
            |index: usize| if index < first.len() { first.start + index } else { second.start + index - first.len() };
        let split = first.len().clamp(wanted.start, wanted.end);
        let parts = [wanted.start..split, split..wanted.end];
        let rows = parts.into_iter().filter(|part| !part.is_empty());
        let rows = rows.flat_map(|part| self.rows(row(part.start)..row(part.start) + part.len()));
        RefPage { entries: rows.cloned().collect(), total }
    }

    pub(super) fn apply(&mut self, changes: &[TableChange]) {
        for change in changes {
            match change {
                TableChange::Set(entry) if entry.name.is_hidden() => {}
                TableChange::Set(entry) => {
                    self.is_plain &= entry.kind != ObjectType::Any;
                    self.set(entry.clone());
                }
                TableChange::Removed(name) => self.remove(name),
            }
        }
    }

    fn set(&mut self, entry: RefEntry) {
        self.bytes += weight(&entry);
        if self.parts.is_empty() {
            self.parts.push(Arc::new(vec![entry]));
            return;
        }
        let index = self.part_of(&entry.name).min(self.parts.len() - 1);
        let part = Arc::make_mut(&mut self.parts[index]);
        match part.binary_search_by(|old| old.name.cmp(&entry.name)) {
            Ok(place) => {
                self.bytes = self.bytes.saturating_sub(weight(&entry));
                part[place] = entry;
            }
            Err(place) => part.insert(place, entry),
        }
        if part.len() >= 2 * ENTRIES_PER_PART {
            let upper = part.split_off(ENTRIES_PER_PART);
            self.parts.insert(index + 1, Arc::new(upper));
        }
    }

    fn remove(&mut self, name: &RefName) {
        let index = self.part_of(name);
        let Some(part) = self.parts.get_mut(index) else { return };
        let Ok(place) = part.binary_search_by(|entry| entry.name.cmp(name)) else { return };
        let part = Arc::make_mut(part);
        let gone = part.remove(place);
        if part.is_empty() {
            self.parts.remove(index);
        }
        self.bytes = self.bytes.saturating_sub(weight(&gone));
    }

    /// Returns the index of the part that would contain the name.
    fn part_of(&self, name: &RefName) -> usize {
        self.parts.partition_point(|part| part.last().is_some_and(|last| last.name < *name))
    }

    /// Counts the refs before the first that is not `wanted`; all `wanted` ones come first.
    fn count_while(&self, wanted: impl Fn(&[u8]) -> bool) -> usize {
        let whole = self.parts.partition_point(|part| part.last().is_some_and(|last| wanted(last.name.as_bytes())));
        let before: usize = self.parts[..whole].iter().map(|part| part.len()).sum();
        let within = self.parts.get(whole);
        before + within.map_or(0, |part| part.partition_point(|entry| wanted(entry.name.as_bytes())))
    }
}

fn weight(entry: &RefEntry) -> usize {
    ENTRY_OVERHEAD_BYTES + entry.name.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, number: u8) -> RefEntry {
        let target = Oid::from_bytes(&[number; 20]).unwrap();
        RefEntry { name: RefName::parse(name.as_bytes()).unwrap(), target, peeled: None, kind: ObjectType::Commit }
    }

    fn empty() -> RefTable {
        RefTable::new(Vec::new(), None, true, Stamp { head: None, packed: None })
    }

    #[test]
    fn a_change_copies_one_part() {
        let entries: Vec<_> = (0..10_000).map(|number| entry(&format!("refs/heads/{number:05}"), 1)).collect();
        let table = RefTable::new(entries, None, true, Stamp { head: None, packed: None });
        let mut changed = table.clone();
        changed.apply(&[TableChange::Set(entry("refs/heads/05000", 2))]);
        let shared = table.parts.iter().zip(&changed.parts).filter(|(one, other)| Arc::ptr_eq(one, other)).count();
        assert_eq!((shared, changed.bytes()), (table.parts.len() - 1, table.bytes()));
    }

    #[test]
    fn pages_leave_out_pull_requests() {
        let names =
            ["refs/heads/a", "refs/heads/b", "refs/pull/1/head", "refs/pull/2/head", "refs/pulls/x", "refs/tags/t"];
        let entries = names.iter().map(|name| entry(name, 1)).collect();
        let table = RefTable::new(entries, None, true, Stamp { head: None, packed: None });
        let page = |prefix: &str, number, size| {
            let page = table.page(prefix.as_bytes(), Page { number, size });
            (page.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(), page.total)
        };
        assert_eq!(
            page("refs/", 1, 9),
            (["refs/heads/a", "refs/heads/b", "refs/pulls/x", "refs/tags/t"].map(str::to_owned).to_vec(), 4)
        );
        assert_eq!(page("", 2, 1), (vec!["refs/heads/b".to_owned()], 4));
        assert_eq!(page("", 2, 2), (vec!["refs/pulls/x".to_owned(), "refs/tags/t".to_owned()], 4));
        assert_eq!(page("refs/pull", 1, 9), (vec!["refs/pulls/x".to_owned()], 1));
        assert_eq!(page("refs/tags/", 1, 9), (vec!["refs/tags/t".to_owned()], 1));
        assert_eq!((page("refs/pull/", 1, 9), page("refs/pull/1", 1, 9)), ((vec![], 0), (vec![], 0)));
        assert_eq!(table.span(b"refs/pull/").len(), 2, "git lists them");
    }

    #[test]
    fn names_clash_with_those_above_and_below() {
        let mut table = empty();
        table.apply(&["a/b/c", "gone"].map(|name| TableChange::Set(entry(&format!("refs/heads/{name}"), 1))));
        for (name, expected) in
            [("a", true), ("a/b", true), ("a/b/c/d", true), ("a/b/d", false), ("a/b/cc", false), ("gone/x", false)]
        {
            let name = RefName::parse(format!("refs/heads/{name}").as_bytes()).unwrap();
            let is_gone = |other: &RefName| other.as_bytes() == b"refs/heads/gone";
            assert_eq!(table.clashes_with(&name, is_gone), expected, "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn behaves_like_a_sorted_map(
            edits in proptest::collection::vec(("[ab]{1,2}(/[a-c.-]?[abc]){0,2}", any::<Option<u8>>()), 0..200),
            prefix in "(refs/heads/[ab]{0,2}(/[a-c]?)?|refs/|)",
            number in 1..5_usize,
            size in 1..9_usize,
            grow in 0..1500_usize,
        ) {
            let (mut table, mut map) = (empty(), BTreeMap::new());
            let more = (0..grow).map(|index| (format!("c{}", index * 7919 % 1500), Some(3)));
            for (name, target) in more.chain(edits) {
                let name = format!("refs/heads/{name}");
                let Ok(full) = RefName::parse(name.as_bytes()) else { continue };
                match target {
                    Some(target) => {
                        map.insert(name.clone(), entry(&name, target));
                        table.apply(&[TableChange::Set(entry(&name, target))]);
                    }
                    None => {
                        map.remove(&name);
                        table.apply(&[TableChange::Removed(full)]);
                    }
                }
            }
            prop_assert_eq!(table.len(), map.len());
            prop_assert_eq!(table.is_empty(), map.is_empty());
            prop_assert_eq!(table.bytes(), map.values().map(weight).sum::<usize>());
            prop_assert!(table.rows(0..usize::MAX).eq(map.values()));
            let wanted: Vec<_> = map.values().filter(|entry| entry.name.as_bytes().starts_with(prefix.as_bytes())).collect();
            let page = table.page(prefix.as_bytes(), Page { number, size });
            prop_assert_eq!(page.total, wanted.len());
            prop_assert!(page.entries.iter().eq(wanted.into_iter().skip((number - 1) * size).take(size)));
            for entry in map.values().take(20) {
                prop_assert_eq!(table.find(&entry.name), Some(entry));
            }
            prop_assert_eq!(table.find(&RefName::parse(b"refs/heads/zz").unwrap()), None);
        }
    }
}
