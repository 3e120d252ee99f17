//! A tree as one zip or tar file. Made once, into a file that is thrown away when nobody has asked for it for long; whoever asks
//! while it is being made reads behind the writer.
//!
//! The bytes follow from the commit, the format and the name of the folder: no clock, no other setting.

mod plan;
mod produce;
mod shared;
mod tar;
#[cfg(test)]
mod tests;
mod zip;

use std::fmt;

use ferrite_proto::id::RepositoryId;
use flate2::Compression;
use git2::Oid;
use sha2::{Digest as _, Sha256};

pub(crate) use self::{
    plan::Limits,
    produce::{check, open},
    shared::{Archives, Reader},
};
use crate::error::GitError;

/// Part of every entity tag: raised when the same commit gives other bytes than before, by our code or by the compressor's. A test
/// holds the bytes.
const WRITER: u32 = 3;

/// How hard the compressor tries: a fifth less work than its usual level, for archives that are about a hundredth larger.
const LEVEL: Compression = Compression::new(5);

/// The longest name of the folder.
const MAX_PREFIX: usize = 100;

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A zip file.
    Zip,
    /// A tar file, compressed with gzip.
    TarGz,
}

impl Format {
    /// The format of this name, which is the end of a file's name, too.
    pub fn parse(name: &[u8]) -> Result<Self, GitError> {
        match name {
            b"zip" => Ok(Self::Zip),
            b"tar.gz" => Ok(Self::TarGz),
            _ => Err(GitError::invalid("format", "invalid", "must be `zip` or `tar.gz`")),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::TarGz => "tar.gz",
        }
    }
}

/// The name of the folder that holds everything in an archive: one part of a path that nothing takes for anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Checks a name: what a repository may be called.
    pub fn parse(name: &[u8]) -> Result<Self, GitError> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_named = name.iter().any(|byte| *byte != b'.') && !name.starts_with(b"-");
        if name.len() > MAX_PREFIX || !is_named || !name.iter().all(is_plain) || name.eq_ignore_ascii_case(b".git") {
            return Err(GitError::invalid("prefix", "invalid", "must be a name of letters, digits, `.`, `_` and `-`"));
        }
        Ok(Self(String::from_utf8_lossy(name).into_owned()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What the bytes of an archive follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) repository: RepositoryId,
    pub(crate) commit: Oid,
    pub(crate) format: Format,
    pub(crate) prefix: Prefix,
    /// git's version: some archives are made by it.
    pub(crate) git: (u32, u32),
}

impl Spec {
    /// Stands for the bytes: the entity tag, and the key of the copies.
    pub(crate) fn key(&self) -> String {
        let Self { repository, commit, format, prefix, git: (major, minor) } = self;
        let text = format!("{WRITER} {major}.{minor} {repository} {commit} {} {prefix}", format.name());
        let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
        hash.truncate(40);
        hash
    }
}
