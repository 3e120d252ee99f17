//! Archive formats and the top folder of an archive.

use std::fmt;

use super::error::GitError;

const MAX_PREFIX: usize = 100;

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A zip file.
    Zip,
    /// A tar file, compressed with gzip.
    TarGz,
}

impl Format {
    /// Parses a format name, which is also the file extension.
    pub fn parse(name: &[u8]) -> Result<Self, GitError> {
        match name {
            b"zip" => Ok(Self::Zip),
            b"tar.gz" => Ok(Self::TarGz),
            _ => Err(GitError::invalid("format", "invalid", "must be `zip` or `tar.gz`")),
        }
    }

    /// The format name, which is also the file extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::TarGz => "tar.gz",
        }
    }
}

/// The name of an archive's top folder. Safe as one path component: no `.`, `..`, `.git` or leading
/// dash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Checks a prefix against the rules for repository names.
    pub fn parse(name: &[u8]) -> Result<Self, GitError> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_named = name.iter().any(|byte| *byte != b'.') && !name.starts_with(b"-");
        if name.len() > MAX_PREFIX || !is_named || !name.iter().all(is_plain) || name.eq_ignore_ascii_case(b".git") {
            return Err(GitError::invalid("prefix", "invalid", "must contain only letters, digits, `.`, `_` and `-`"));
        }
        Ok(Self(String::from_utf8_lossy(name).into_owned()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
