//! Everything that determines the bytes of an archive, and the version of the writers.

use ferrite_proto::id::RepositoryId;
use flate2::Compression;
use git_store::types::archive::{Format, Prefix};
use git2::Oid;
use sha2::{Digest as _, Sha256};

/// Version of the archive writers, part of every entity tag. Raised when the same commit gives other bytes than before, because of
/// our code or the compressor. A test holds the bytes.
pub(super) const WRITER_VERSION: u32 = 4;

/// Compression level: a fifth less work than the default, for archives that are about a hundredth larger.
pub(super) const COMPRESSION_LEVEL: Compression = Compression::new(5);

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
