//! A tree as one zip or tar file. Made once, into a file that is thrown away when nobody has asked for it for long; whoever asks
//! while it is being made reads behind the writer.
//!
//! The bytes follow from the commit, the format and the name of the folder: no clock, no other setting.

mod cache;
mod plan;
mod produce;
mod service;
mod spec;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

pub(crate) use self::{cache::ArchiveCache, plan::ArchiveLimits, service::ArchiveService, spec::ArchiveSpec};
