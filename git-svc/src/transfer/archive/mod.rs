//! Archives of a tree as zip or tar.gz files. Each is made once, into a cached file; requests that
//! arrive meanwhile read the growing file. The least recently used archives are deleted when the
//! cache exceeds its size. Large files that are stored as deltas, and texts of diffs, are handled in
//! the same way.
//!
//! The bytes of an archive depend only on the commit, the format and the prefix, and on git's
//! version if git makes the archive.

mod cache;
mod delta_file;
mod diff_text;
mod plan;
mod produce;
mod remote;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

use std::sync::Arc;

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use flate2::Compression;
use git_store::{
    disk::repositories::RepositoryStore,
    git::command::Git,
    repo::pool::Pool,
    types::archive::{Format, Prefix},
};
use git2::Oid;
use sha2::{Digest as _, Sha256};

pub(crate) use self::{
    cache::{ArchiveCache, Reader},
    delta_file::DeltaFile,
    diff_text::{DiffFormat, DiffText},
    plan::ArchiveLimits,
    remote::{MAX_REQUEST_BYTES, refusal, request_length},
};
use crate::admission::{limiter::Limiter, memory_budget::MemoryBudget};

/// Version of the archive writers, part of every entity tag. Raise it when the same commit gives
/// different bytes, because of our code or the compressor. A test checks the bytes.
const WRITER_VERSION: u32 = 4;

/// A fifth less work than the default, for archives about 1% larger.
const COMPRESSION_LEVEL: Compression = Compression::new(5);

/// Everything that determines the bytes of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveSpec {
    pub(crate) repository: RepositoryId,
    pub(crate) commit: Oid,
    pub(crate) format: Format,
    pub(crate) prefix: Prefix,
    /// git's version (major, minor), because git makes some of the archives.
    pub(crate) git: (u32, u32),
}

impl ArchiveSpec {
    /// Returns a hash of the fields: the entity tag, and the key in the cache.
    pub(crate) fn key(&self) -> String {
        let Self { repository, commit, format, prefix, git: (major, minor) } = self;
        let text = format!("{WRITER_VERSION} {major}.{minor} {repository} {commit} {} {prefix}", format.name());
        let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
        hash.truncate(40);
        hash
    }
}

/// Makes archives, or finds them in the cache. Clones share everything.
#[derive(Clone)]
pub(crate) struct ArchiveService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) diff_limiter: Arc<Limiter>,
    pub(crate) delta_memory: Arc<MemoryBudget>,
    pub(crate) cache: ArchiveCache,
    pub(crate) life: Lifecycle,
}
