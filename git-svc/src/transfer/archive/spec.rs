//! What determines the bytes of an archive.

use ferrite_proto::id::RepositoryId;
use flate2::Compression;
use git2::Oid;
use sha2::{Digest as _, Sha256};

use crate::types::archive::{Format, Prefix};

/// Part of every entity tag: raised when the same commit gives other bytes than before, by our code or by the compressor's. A test
/// holds the bytes.
pub(super) const WRITER_VERSION: u32 = 3;

/// How hard the compressor tries: a fifth less work than its usual level, for archives that are about a hundredth larger.
pub(super) const COMPRESSION_LEVEL: Compression = Compression::new(5);

/// What the bytes of an archive follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveSpec {
    pub(crate) repository: RepositoryId,
    pub(crate) commit: Oid,
    pub(crate) format: Format,
    pub(crate) prefix: Prefix,
    /// git's version: some archives are made by it.
    pub(crate) git: (u32, u32),
}

impl ArchiveSpec {
    /// Stands for the bytes: the entity tag, and the key of the copies.
    pub(crate) fn key(&self) -> String {
        let Self { repository, commit, format, prefix, git: (major, minor) } = self;
        let text = format!("{WRITER_VERSION} {major}.{minor} {repository} {commit} {} {prefix}", format.name());
        let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
        hash.truncate(40);
        hash
    }
}
