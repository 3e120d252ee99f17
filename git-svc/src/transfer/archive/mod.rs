//! Archives of a tree as zip or tar.gz files. Each is made once, into a cached file; a request that comes while it is
//! being made reads the growing file. The least recently used archives are deleted when the cache exceeds its size.
//!
//! Large files that are stored as deltas are made and kept in the same way.
//!
//! The bytes of an archive depend on the commit, the format and the prefix, and on git's version if git makes the archive: on no
//! clock and no other setting.

mod cache;
mod delta_file;
mod plan;
mod produce;
mod remote;
mod service;
mod spec;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

pub(crate) use self::{
    cache::{ArchiveCache, Reader},
    delta_file::DeltaFile,
    plan::ArchiveLimits,
    remote::{MAX_REQUEST_BYTES, refusal, request_length},
    service::ArchiveService,
    spec::ArchiveSpec,
};
