//! Confidential settings and the files that hold them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

const MAX_FILE_BYTES: u64 = 64 << 10;

/// A confidential text. `Debug` and `Display` print `[secret]`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

/// Why a secret cannot be read from its file. The text reveals neither path nor content.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file cannot be opened or read.
    #[error("the file cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file is empty or has only line breaks.
    #[error("the file is empty")]
    Empty,
    /// The file is larger than 64 KiB.
    #[error("the file is larger than {} KiB", MAX_FILE_BYTES >> 10)]
    TooLarge,
    /// The file is not UTF-8.
    #[error("the file is not UTF-8")]
    NotText,
}

impl Secret {
    /// Reads a file, without trailing line breaks.
    ///
    /// # Errors
    /// If the file is unreadable, empty, larger than 64 KiB, or not UTF-8.
    pub fn read(path: &Path) -> Result<Self, SecretFileError> {
        let mut content = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
        if u64::try_from(content.len()).is_ok_and(|bytes| bytes > MAX_FILE_BYTES) {
            return Err(SecretFileError::TooLarge);
        }
        let mut text = String::from_utf8(content).map_err(|_| SecretFileError::NotText)?;
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
        if text.is_empty() { Err(SecretFileError::Empty) } else { Ok(Self(text)) }
    }

    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[secret]")
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_display_do_not_show_the_text() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[secret] [secret] Some([secret])");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_file_is_read_without_the_ends_of_lines_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (content, expected) in [
            ("hunter2", "hunter2"),
            ("hunter2\n", "hunter2"),
            ("hunter2\r\n\n", "hunter2"),
            (" a b\nc \n", " a b\nc "),
            ("pässwörd\n", "pässwörd"),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Secret::read(&path).unwrap().expose(), expected, "{content:?}");
        }
        std::fs::write(&path, "x".repeat(64 << 10)).unwrap();
        assert_eq!(Secret::read(&path).unwrap().expose().len(), 64 << 10);
    }

    #[test]
    fn a_file_without_a_secret_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let error = |path: &Path| Secret::read(path).unwrap_err().to_string();
        assert!(error(&path).starts_with("the file cannot be read: No such file"), "{}", error(&path));
        assert!(error(folder.path()).starts_with("the file cannot be read: "), "{}", error(folder.path()));
        for (content, expected) in [
            (Vec::new(), "the file is empty"),
            (b"\r\n\n".to_vec(), "the file is empty"),
            (b"caf\xe9".to_vec(), "the file is not UTF-8"),
            (vec![b'x'; (64 << 10) + 1], "the file is larger than 64 KiB"),
        ] {
            std::fs::write(&path, &content).unwrap();
            assert_eq!(error(&path), expected);
        }
        assert_eq!(error(Path::new("/dev/zero")), "the file is larger than 64 KiB");
    }
}
