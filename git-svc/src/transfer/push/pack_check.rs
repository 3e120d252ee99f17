//! Checks of received packs that git does not make, before any of a pack is kept: the depth of
//! delta chains, and the sizes of commits, tags and trees.
//!
//! Reads the headers of entries. Loads an object only to count its parents or entries, if it is
//! large enough to have too many.

use std::{fs, io, path::Path};

use git_store::{
    disk::delta_mark,
    git::{
        pack_file::{PackFile, PackedEntry, PackedKind},
        pack_stream::{DeltaSizes, PackRefusal, PackSums, check_object},
    },
    types::limits::{
        MAX_COMMIT_BYTES, MAX_COMMIT_PARENTS, MAX_TREE_BYTES, MAX_TREE_ENTRIES, MIN_TREE_ENTRY_BYTES,
        PARENT_LINE_BYTES, PackLimits,
    },
};
use git2::{ObjectType, Odb, Oid};

use super::delta_depth::{DeltaChains, MAX_CHAIN_DEPTH, NO_BASE};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PackFlaw {
    /// A delta chain that is expensive to read.
    #[error("the pack has delta chains that are too deep")]
    DeepChains,
    /// A commit, tag or tree beyond a limit.
    #[error("the {kind} {id} has {count} {unit}; the limit is {limit}")]
    TooLarge {
        kind: ObjectType,
        id: Oid,
        /// Bytes, parents or entries of the object.
        count: u64,
        /// Unit of `count` and `limit`.
        unit: &'static str,
        limit: u64,
    },
    /// Objects beyond the limits of a pack.
    #[error(transparent)]
    Sizes(PackRefusal),
}

/// Checks for packs that no [`PackStream`](git_store::git::pack_stream::PackStream) has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreadPacks<'a> {
    /// Limits of all objects and of their sums.
    pub(crate) limits: &'a PackLimits,
    /// Repository that receives the packs. Loses its mark of having no large deltas if they have
    /// any.
    pub(crate) repository: &'a Path,
}

/// Returns the first flaw of the packs in the object directory `objects`.
pub(crate) fn find_flaw(objects: &Path, unread: Option<UnreadPacks<'_>>) -> io::Result<Option<PackFlaw>> {
    let entries = match fs::read_dir(objects.join("pack")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut has_large_deltas = false;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "idx")
            && let Some(pack) = PackFile::open(&path)?
        {
            let pack = ReceivedPack::read(pack)?;
            if let Some(UnreadPacks { limits, .. }) = unread {
                match pack.check_sizes(limits)? {
                    Err(refusal) => return Ok(Some(PackFlaw::Sizes(refusal))),
                    Ok(is_large) => has_large_deltas |= is_large,
                }
            }
            if let Some(flaw) = pack.flaw(objects)? {
                return Ok(Some(flaw));
            }
        }
    }
    // A rejected pack does not change the mark.
    if let Some(UnreadPacks { repository, .. }) = unread.filter(|_| has_large_deltas) {
        delta_mark::clear(repository)?;
    }
    Ok(None)
}

/// A pack and the headers of its entries.
struct ReceivedPack {
    pack: PackFile,
    /// Offsets of the entries, sorted.
    offsets: Vec<u64>,
    /// Types of the entries that are no deltas, by position.
    kinds: Vec<Option<ObjectType>>,
    chains: DeltaChains,
}

impl ReceivedPack {
    fn read(pack: PackFile) -> io::Result<Self> {
        let mut offsets = pack.offsets()?;
        offsets.sort_unstable();
        let (mut kinds, mut bases) = (Vec::with_capacity(offsets.len()), Vec::with_capacity(offsets.len()));
        for offset in &offsets {
            let (kind, base) = match pack.entry(*offset)?.kind {
                PackedKind::Whole(kind) => (kind, None),
                PackedKind::Delta(base) => (None, base.and_then(|base| offsets.binary_search(&base).ok())),
            };
            kinds.push(kind);
            bases.push(base.and_then(|base| u32::try_from(base).ok()).unwrap_or(NO_BASE));
        }
        Ok(Self { pack, offsets, kinds, chains: DeltaChains { bases } })
    }

    fn flaw(&self, objects: &Path) -> io::Result<Option<PackFlaw>> {
        if self.chains.deepest() > MAX_CHAIN_DEPTH {
            return Ok(Some(PackFlaw::DeepChains));
        }
        let mut uncounted = Vec::new();
        for (offset, root) in self.offsets.iter().zip(self.chains.roots()) {
            let kind = self.kinds.get(root as usize).copied().flatten();
            let Some(limits) = kind.and_then(Limits::of) else { continue };
            let bytes = self.bytes(&self.pack.entry(*offset)?)?;
            if bytes > limits.bytes {
                let id = self.pack.ids_at(&[*offset])?.first().copied().unwrap_or(Oid::ZERO_SHA1);
                let (kind, limit) = (limits.kind, limits.bytes);
                return Ok(Some(PackFlaw::TooLarge { kind, id, count: bytes, unit: "bytes", limit }));
            }
            if bytes > limits.uncounted_bytes {
                uncounted.push(*offset);
            }
        }
        if uncounted.is_empty() {
            return Ok(None);
        }
        find_too_many(objects, &self.pack.ids_at(&uncounted)?).map_err(io::Error::other)
    }

    /// Returns the memory needed to read the object of an entry: the largest of the delta, its base
    /// and its result, because a reader holds all of them.
    fn bytes(&self, entry: &PackedEntry) -> io::Result<u64> {
        match entry.kind {
            PackedKind::Whole(_) => Ok(entry.size),
            PackedKind::Delta(_) => Ok(self.delta_sizes(entry)?.largest()),
        }
    }

    fn delta_sizes(&self, entry: &PackedEntry) -> io::Result<DeltaSizes> {
        let (base, result) = self.pack.delta_sizes(entry)?;
        Ok(DeltaSizes { delta: entry.size, base, result })
    }

    /// Checks the sizes of all entries and objects. Returns whether a delta is large.
    fn check_sizes(&self, limits: &PackLimits) -> io::Result<Result<bool, PackRefusal>> {
        let (mut sums, mut has_large_deltas) = (PackSums::default(), false);
        for offset in &self.offsets {
            let entry = self.pack.entry(*offset)?;
            sums.inflated = sums.inflated.saturating_add(entry.size);
            let checked = match entry.kind {
                PackedKind::Whole(_) => check_object(limits, entry.size),
                PackedKind::Delta(_) => {
                    let sizes = self.delta_sizes(&entry)?;
                    sums.deltas = sums.deltas.saturating_add(sizes.result);
                    has_large_deltas |= sizes.is_large();
                    check_object(limits, sizes.result.max(entry.size)).and_then(|()| sizes.check())
                }
            };
            if let Err(refusal) = checked {
                return Ok(Err(refusal));
            }
        }
        Ok(sums.check(limits, self.pack.bytes()?).map(|()| has_large_deltas))
    }
}

/// Limits of the objects of one type.
struct Limits {
    kind: ObjectType,
    bytes: u64,
    /// Objects up to this size cannot have too many parents or entries.
    uncounted_bytes: u64,
}

impl Limits {
    fn of(kind: ObjectType) -> Option<Self> {
        let (bytes, uncounted_bytes) = match kind {
            ObjectType::Commit => (MAX_COMMIT_BYTES as u64, MAX_COMMIT_PARENTS as u64 * PARENT_LINE_BYTES),
            ObjectType::Tag => (MAX_COMMIT_BYTES as u64, u64::MAX),
            ObjectType::Tree => (MAX_TREE_BYTES, MAX_TREE_ENTRIES as u64 * MIN_TREE_ENTRY_BYTES),
            ObjectType::Blob | ObjectType::Any => return None,
        };
        Some(Self { kind, bytes, uncounted_bytes })
    }
}

/// Loads commits and trees within their size limits. Returns the first with too many parents or
/// entries.
fn find_too_many(objects: &Path, ids: &[Oid]) -> Result<Option<PackFlaw>, git2::Error> {
    let odb = Odb::new()?;
    odb.add_disk_alternate(&objects.to_string_lossy())?;
    for id in ids {
        let object = odb.read(*id)?;
        let (count, unit, limit) = match object.kind() {
            ObjectType::Tree => (count_entries(object.data()), "entries", MAX_TREE_ENTRIES),
            _ => (count_parents(object.data()), "parents", MAX_COMMIT_PARENTS),
        };
        if count > limit {
            let (kind, count, limit) = (object.kind(), count as u64, limit as u64);
            return Ok(Some(PackFlaw::TooLarge { kind, id: *id, count, unit, limit }));
        }
    }
    Ok(None)
}

/// Counts the lines in the header of a commit that name a parent.
fn count_parents(commit: &[u8]) -> usize {
    let header = commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    header.filter(|line| line.starts_with(b"parent ")).count()
}

/// Counts the entries of a tree: mode, blank, name, NUL, and an id of 20 bytes each.
fn count_entries(mut tree: &[u8]) -> usize {
    let mut count = 0;
    while let Some(end) = tree.iter().position(|byte| *byte == 0) {
        count += 1;
        tree = tree.get(end + 21..).unwrap_or_default();
    }
    count
}

#[cfg(test)]
mod tests;
