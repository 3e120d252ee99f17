//! Files that are stored as deltas. Who reads one puts it together, and has it and each object of its chain in memory as a whole: also
//! a small file, if it is a delta of a large one.
//!
//! Not here: which deltas are taken (`git::pack_stream`), and commits, tags and trees, whose sizes have limits of their own.

use std::{fs, io, path::Path};

use git2::{Oid, Repository};

use crate::{
    disk::delta_mark,
    git::{
        pack_file::{PackFile, PackedKind},
        pack_stream::DeltaSizes,
    },
    types::error::GitError,
};

/// Deltas of a chain that are looked at. No pack with a deeper one is taken.
const MAX_CHAIN_DEPTH: usize = 4095;
/// Attempts to open all packs while maintenance replaces some.
const MAX_ATTEMPTS: usize = 3;

/// What reading an object takes that is stored as a delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaCost {
    /// Bytes that are in memory at once; 0 for an object that is stored as a whole.
    pub bytes: u64,
    /// True if libgit2 must not load it.
    pub is_large: bool,
}

impl DeltaCost {
    /// Returns the cost of one object, as [`StoredDeltas::cost`] does.
    ///
    /// # Errors
    /// `Io`.
    pub fn of(repo: &Repository, id: Oid) -> Result<Self, GitError> {
        StoredDeltas::open(repo)?.cost(id)
    }

    fn add(&mut self, sizes: &DeltaSizes) {
        self.bytes = self.bytes.max(sizes.sum());
        self.is_large |= sizes.is_large();
    }

    /// Adds the chain of deltas that begins with the entry at `offset`.
    fn add_chain(&mut self, pack: &PackFile, mut offset: u64) -> io::Result<()> {
        for _ in 0..=MAX_CHAIN_DEPTH {
            let entry = pack.entry(offset)?;
            let PackedKind::Delta(base_offset) = entry.kind else { return Ok(()) };
            let (base, result) = pack.delta_sizes(&entry)?;
            self.add(&DeltaSizes { delta: entry.size, base, result });
            // Without a base the object cannot be read.
            let Some(base_offset) = base_offset else { return Ok(()) };
            offset = base_offset;
        }
        Ok(())
    }
}

/// Returns whether libgit2 may load a file.
///
/// # Errors
/// `Io`.
pub fn is_loadable(repo: &Repository, id: Oid) -> Result<bool, GitError> {
    LoadCheck::of(repo)?.is_loadable(id)
}

/// Tells which files of a repository libgit2 may load: all, if the repository is marked.
pub struct LoadCheck(Option<StoredDeltas>);

impl LoadCheck {
    /// Opens the packs of a repository that is not marked.
    ///
    /// # Errors
    /// `Io`.
    pub fn of(repo: &Repository) -> Result<Self, GitError> {
        let is_marked = delta_mark::is_set(repo.path());
        Ok(Self(if is_marked { None } else { Some(StoredDeltas::open(repo)?) }))
    }

    /// Returns whether libgit2 may load a file.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_loadable(&self, id: Oid) -> Result<bool, GitError> {
        self.0.as_ref().map_or(Ok(true), |deltas| Ok(!deltas.cost(id)?.is_large))
    }
}

/// The packs of a repository.
pub struct StoredDeltas(Vec<PackFile>);

impl StoredDeltas {
    fn open(repo: &Repository) -> Result<Self, GitError> {
        let folder = repo.path().join("objects/pack");
        for _ in 1..MAX_ATTEMPTS {
            match open_packs(&folder) {
                // Maintenance has replaced a pack: its objects are in one that was not listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && folder.exists() => {}
                opened => return opened.map(Self).map_err(GitError::io("opening the packs")),
            }
        }
        open_packs(&folder).map(Self).map_err(GitError::io("opening the packs"))
    }

    /// Returns the cost of an object by the way it is stored. An object that several packs have costs the most of them.
    fn cost(&self, id: Oid) -> Result<DeltaCost, GitError> {
        let mut cost = DeltaCost::default();
        let added = self.0.iter().try_for_each(|pack| match pack.find(id.as_bytes())? {
            Some(offset) => cost.add_chain(pack, offset),
            None => Ok(()),
        });
        added.map(|()| cost).map_err(GitError::io("reading a pack"))
    }
}

/// Opens all packs of a folder.
fn open_packs(folder: &Path) -> io::Result<Vec<PackFile>> {
    let mut packs = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            packs.extend(PackFile::open(&path)?);
        }
    }
    Ok(packs)
}

#[cfg(test)]
mod tests;
