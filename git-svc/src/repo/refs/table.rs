//! The refs of one repository in memory: sorted, in parts that tables share, so that a change copies one part and no more.
//! Not here: how they get there (`load`) and stay true (`warm`).

use std::{fs, io, ops::Range, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use git2::{ObjectType, Oid};

use super::edit::Page;
use crate::types::name::RefName;

/// Refs of one part; twice as many are split.
const ENTRIES_PER_PART: usize = 256;
/// What a ref takes besides its name: the entry, and the allocator's share.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<RefEntry>() + 16;

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEntry {
    /// Its full name.
    pub name: RefName,
    /// What it points to: a commit for branches, any object for others.
    pub target: Oid,
    /// Where that leads in the end, if it is an annotated tag.
    pub peeled: Option<Oid>,
    /// What is there in the end: no tag; [`ObjectType::Any`] if nobody can tell.
    pub kind: ObjectType,
}

/// A page of refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefPage {
    /// By name.
    pub entries: Vec<RefEntry>,
    /// In all pages.
    pub total: usize,
}

/// What became of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    /// It is this now.
    Set(RefEntry),
    /// It does not exist any more.
    Removed(RefName),
}

/// One file as it was at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileStamp {
    /// A file's, from what the system says about it.
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

/// The files of a repository whose change is seen without reading them. Each is replaced as a whole, never written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// `HEAD`; absent: there is no repository.
    pub(super) head: Option<FileStamp>,
    /// `packed-refs`, which need not exist.
    pub(super) packed: Option<FileStamp>,
}

impl Stamp {
    /// A repository's.
    pub(super) fn of(repository: &Path) -> io::Result<Self> {
        let head = FileStamp::of(&repository.join("HEAD"))?;
        Ok(Self { head, packed: FileStamp::of(&repository.join("packed-refs"))? })
    }
}

/// The refs of a repository that clients may see.
#[derive(Clone, Debug)]
pub struct RefTable {
    /// None is empty.
    parts: Vec<Arc<Vec<RefEntry>>>,
    bytes: usize,
    head: Option<RefName>,
    is_plain: bool,
    pub(super) stamp: Stamp,
}

impl RefTable {
    /// A table of refs that are sorted by name, each once. See [`RefTable::head`] and [`RefTable::is_plain`].
    pub(super) fn new(sorted: Vec<RefEntry>, head: Option<RefName>, is_plain: bool, stamp: Stamp) -> Self {
        let bytes = sorted.iter().map(weight).sum();
        let (mut parts, mut rest) =
            (Vec::with_capacity(sorted.len() / ENTRIES_PER_PART + 1), sorted.into_iter().peekable());
        while rest.peek().is_some() {
            parts.push(Arc::new(rest.by_ref().take(ENTRIES_PER_PART).collect()));
        }
        Self { parts, bytes, head, is_plain, stamp }
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The branch HEAD points to, which need not exist; `None` when it is no branch, which is not plain.
    #[must_use]
    pub fn head(&self) -> Option<&RefName> {
        self.head.as_ref()
    }

    /// Whether there is nothing that git may see differently: no symbolic ref but HEAD, no ref that is broken or leads nowhere, and no
    /// name that we would not give.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// How many refs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The ref of this name.
    #[must_use]
    pub fn find(&self, name: &RefName) -> Option<&RefEntry> {
        let part = self.parts.get(self.part_of(name))?;
        part.binary_search_by(|entry| entry.name.cmp(name)).ok().and_then(|index| part.get(index))
    }

    /// Which of the refs in their order have a full name that begins with `prefix`.
    #[must_use]
    pub fn span(&self, prefix: &[u8]) -> Range<usize> {
        let start = self.count_while(|name| name < prefix);
        start..self.count_while(|name| name < prefix || name.starts_with(prefix))
    }

    /// The refs at these places in their order.
    pub fn rows(&self, range: Range<usize>) -> impl Iterator<Item = &RefEntry> {
        let (mut skip, mut first) = (range.start, 0);
        while let Some(part) = self.parts.get(first).filter(|part| part.len() <= skip) {
            skip -= part.len();
            first += 1;
        }
        let parts = self.parts.get(first..).unwrap_or_default();
        parts.iter().flat_map(|part| part.iter()).skip(skip).take(range.len())
    }

    /// A page of the refs whose full name begins with `prefix`, by name.
    #[must_use]
    pub fn page(&self, prefix: &[u8], page: Page) -> RefPage {
        let span = self.span(prefix);
        let wanted = page.range(span.len());
        let entries = self.rows(span.start + wanted.start..span.start + wanted.end).cloned().collect();
        RefPage { entries, total: span.len() }
    }

    /// Brings it up to date.
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

    /// The part that holds the name if any does.
    fn part_of(&self, name: &RefName) -> usize {
        self.parts.partition_point(|part| part.last().is_some_and(|last| last.name < *name))
    }

    /// How many refs come before the first whose name is not `wanted`; none after it is.
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
