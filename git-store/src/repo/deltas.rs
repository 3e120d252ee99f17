//! Finds files stored as deltas. Reading one loads every object of its chain as a whole, so even a
//! small file may be expensive.

use std::{cell::OnceCell, collections::BTreeSet, ffi::OsString, fs, io, path::Path};

use ferrite_proto::id::RepositoryId;
use git2::{Oid, Repository};

use crate::{
    disk::{delta_mark, packs::pack_folder, repositories::RepositoryStore},
    git::{
        pack_file::{PackFile, PackedKind},
        pack_stream::DeltaSizes,
    },
    types::error::GitError,
};

/// Longest delta chain followed. No pack with a longer one is accepted.
const MAX_CHAIN_DEPTH: usize = 4095;
/// Attempts to open all packs while maintenance replaces some of them.
const MAX_ATTEMPTS: usize = 3;

/// The cost of reading an object stored as a delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaCost {
    /// Bytes in memory at once; 0 for an object stored whole.
    pub bytes: u64,
    /// Whether it is too large for libgit2.
    pub is_large: bool,
}

impl DeltaCost {
    /// Returns the cost of one object.
    pub fn of(repo: &Repository, id: Oid) -> Result<Self, GitError> {
        StoredDeltas::open(repo)?.cost(id)
    }

    fn add(&mut self, sizes: &DeltaSizes) {
        self.bytes = self.bytes.max(sizes.sum());
        self.is_large |= sizes.is_large();
    }

    fn add_chain(&mut self, pack: &PackFile, mut offset: u64) -> io::Result<()> {
        for _ in 0..=MAX_CHAIN_DEPTH {
            let entry = pack.entry(offset)?;
            let PackedKind::Delta(base_offset) = entry.kind else { return Ok(()) };
            let (base, result) = pack.delta_sizes(&entry)?;
            self.add(&DeltaSizes { delta: entry.size, base, result });
            // Without its base, the object cannot be read.
            let Some(base_offset) = base_offset else { return Ok(()) };
            offset = base_offset;
        }
        Ok(())
    }
}

/// Tells which files libgit2 may load: all, if the repository is marked. Create one per request; it
/// opens the packs of an unmarked repository at the first file.
pub struct LoadCheck<'repo> {
    repo: &'repo Repository,
    /// The open packs; `Some(None)` if the repository is marked.
    deltas: OnceCell<Option<StoredDeltas>>,
}

impl<'repo> LoadCheck<'repo> {
    /// Creates a check for the files of a repository.
    #[must_use]
    pub fn new(repo: &'repo Repository) -> Self {
        Self { repo, deltas: OnceCell::new() }
    }

    /// The repository.
    #[must_use]
    pub fn repo(&self) -> &'repo Repository {
        self.repo
    }

    /// Returns whether libgit2 may load a file.
    pub fn is_loadable(&self, id: Oid) -> Result<bool, GitError> {
        Ok(!self.cost(id)?.is_large)
    }

    /// Returns the cost of reading a file; zero if the repository is marked.
    pub fn cost(&self, id: Oid) -> Result<DeltaCost, GitError> {
        let deltas = match self.deltas.get() {
            Some(deltas) => deltas,
            None => {
                let is_marked = delta_mark::is_set(self.repo.path());
                let opened = if is_marked { None } else { Some(StoredDeltas::open(self.repo)?) };
                self.deltas.get_or_init(|| opened)
            }
        };
        deltas.as_ref().map_or(Ok(DeltaCost::default()), |deltas| deltas.cost(id))
    }
}

/// The packs of a repository.
pub struct StoredDeltas(Vec<PackFile>);

impl StoredDeltas {
    fn open(repo: &Repository) -> Result<Self, GitError> {
        let folder = repo.path().join("objects/pack");
        for _ in 1..MAX_ATTEMPTS {
            match open_packs(&folder) {
                // Maintenance moved the objects of a pack to a new one. List again.
                Err(error) if error.kind() == io::ErrorKind::NotFound && folder.exists() => {}
                opened => return opened.map(Self).map_err(GitError::io("opening the packs")),
            }
        }
        open_packs(&folder).map(Self).map_err(GitError::io("opening the packs"))
    }

    /// Returns the cost of an object; the highest, if several packs have it.
    fn cost(&self, id: Oid) -> Result<DeltaCost, GitError> {
        let mut cost = DeltaCost::default();
        let added = self.0.iter().try_for_each(|pack| match pack.find(id.as_bytes())? {
            Some(offset) => cost.add_chain(pack, offset),
            None => Ok(()),
        });
        added.map(|()| cost).map_err(GitError::io("reading a pack"))
    }
}

fn open_packs(folder: &Path) -> io::Result<Vec<PackFile>> {
    let mut packs = Vec::new();
    for name in index_names(folder)? {
        packs.extend(PackFile::open(&folder.join(name))?);
    }
    Ok(packs)
}

fn index_names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder)? {
        let name = file?.file_name();
        if Path::new(&name).extension().is_some_and(|extension| extension == "idx") {
            names.insert(name);
        }
    }
    Ok(names)
}

/// The result of [`mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// The mark is set.
    Marked,
    /// No large delta was found, but one may be arriving.
    None,
    /// The repository has a large delta.
    Large,
    /// There were too many objects, or another repository was being marked.
    NotSearched,
}

/// Marks a repository if no pack has a large delta. Reads the sizes of all deltas, unless there are
/// more than `max_objects` or another repository is being marked. A repository known to have
/// received a large delta is checked only if `max_objects` is `u64::MAX`. Blocking.
///
/// Pushes and syncs may go on meanwhile: they remove the mark as soon as a large delta arrives in
/// their quarantine. So if there is no quarantine and no new pack afterwards, every object was
/// either checked or is still to come.
pub fn mark(store: &RepositoryStore, id: RepositoryId, max_objects: u64) -> Result<Marking, GitError> {
    let repository = store.path(id);
    if delta_mark::is_set(&repository) {
        return Ok(Marking::Marked);
    }
    // Maintenance notices when large deltas are gone.
    if max_objects < u64::MAX && delta_mark::has_large(&repository) {
        return Ok(Marking::Large);
    }
    let Some(_marking) = store.begin_marking() else { return Ok(Marking::NotSearched) };
    delta_mark::begin(&repository).map_err(GitError::io("marking a repository"))?;
    let folder = pack_folder(&repository);
    let list = || index_names(&folder).map_err(GitError::io("listing packs"));
    let names = list()?;
    match has_large_deltas(&folder, &names, max_objects).map_err(GitError::io("reading a pack"))? {
        Some(false) => {}
        Some(true) => return Ok(Marking::Large),
        None => return Ok(Marking::NotSearched),
    }
    if store.has_quarantine(id)? || list()? != names {
        return Ok(Marking::None);
    }
    let is_marked = delta_mark::finish(&repository).map_err(GitError::io("marking a repository"))?;
    Ok(if is_marked { Marking::Marked } else { Marking::None })
}

/// Returns whether these packs have a large delta or an unreadable index; `None` if they have more
/// than `max_objects`.
fn has_large_deltas(folder: &Path, indexes: &BTreeSet<OsString>, max_objects: u64) -> io::Result<Option<bool>> {
    let (mut packs, mut objects) = (Vec::new(), 0);
    for index in indexes {
        let Some(pack) = PackFile::open(&folder.join(index))? else { return Ok(Some(true)) };
        objects += u64::from(pack.count());
        packs.push(pack);
    }
    if objects > max_objects {
        return Ok(None);
    }
    for pack in packs {
        // Sorted for sequential reads.
        let mut offsets = pack.offsets()?;
        offsets.sort_unstable();
        for offset in offsets {
            let entry = pack.entry(offset)?;
            if matches!(entry.kind, PackedKind::Delta(_)) {
                let (base, result) = pack.delta_sizes(&entry)?;
                if (DeltaSizes { delta: entry.size, base, result }).is_large() {
                    return Ok(Some(true));
                }
            }
        }
    }
    Ok(Some(false))
}

#[cfg(test)]
mod tests;
