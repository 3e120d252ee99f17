//! Validated paths inside a tree.

use super::error::GitError;

/// Longest path, in bytes.
pub const MAX_PATH: usize = 4096;

/// Longest component, in bytes.
pub const MAX_COMPONENT: usize = 255;

/// The reason why a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is empty.
    #[error("must not be empty")]
    Empty,
    /// The path or a component is too long.
    #[error("is too long")]
    TooLong,
    /// Not UTF-8, a control character, or a backslash.
    #[error("contains a character that is not allowed")]
    Character,
    /// An empty component, `.` or `..`.
    #[error("must not contain an empty component, `.` or `..`")]
    Component,
    /// A component that some file system reads as `.git`.
    #[error("must not be inside `.git`")]
    DotGit,
}

impl PathError {
    /// Returns the `Invalid` error of `field`.
    #[must_use]
    pub fn of(self, field: &str) -> GitError {
        let code = match self {
            Self::Empty => "required",
            Self::TooLong => "too_long",
            Self::Character | Self::Component => "invalid",
            Self::DotGit => "reserved",
        };
        GitError::invalid(field, code, self.to_string())
    }
}

/// A path from the root of a tree, without slashes at its ends; empty for the root.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The root of the tree.
    #[must_use]
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// Validates a path to write: UTF-8 without control characters or backslashes, and no component
    /// that some file system treats specially.
    pub fn strict(path: &[u8]) -> Result<Self, PathError> {
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        let text = std::str::from_utf8(path).map_err(|_| PathError::Character)?;
        if text.contains(|letter: char| letter.is_control() || letter == '\\') {
            return Err(PathError::Character);
        }
        for component in text.split('/') {
            if component.is_empty() || component == "." || component == ".." {
                return Err(PathError::Component);
            }
            if component.len() > MAX_COMPONENT {
                return Err(PathError::TooLong);
            }
            if is_dot_git(component) {
                return Err(PathError::DotGit);
            }
        }
        Ok(Self(path.to_vec()))
    }

    /// Normalizes a path to read as a browser does: drops empty components and `.`, and resolves
    /// `..`.
    ///
    /// The result is looked up entry by entry, so it cannot escape the tree.
    ///
    /// # Errors
    /// [`PathError::TooLong`], and [`PathError::Character`] for a NUL.
    pub fn clean(path: &[u8]) -> Result<Self, PathError> {
        if path.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                part if part.contains(&0) => return Err(PathError::Character),
                part => parts.push(part),
            }
        }
        Ok(Self(parts.join(&b'/')))
    }

    /// Validates a path to read without normalizing it. Rejects components that no tree can hold.
    pub fn literal(path: &[u8]) -> Result<Self, PathError> {
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        if path.contains(&0) {
            return Err(PathError::Character);
        }
        if path.split(|byte| *byte == b'/').any(|part| part.is_empty() || part == b"." || part == b"..") {
            return Err(PathError::Component);
        }
        Ok(Self(path.to_vec()))
    }

    /// The path's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether the path is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the components from the root; none for the root itself.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// Returns the last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.components().next_back().unwrap_or_default()
    }

    /// Returns the path of the entry `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        if self.is_root() { name.to_vec() } else { [self.as_bytes(), b"/", name].concat() }
    }
}

printed! { TreePath }

/// Folds a component as the most lenient file systems do when they compare names: upper case,
/// without ignorable code points, NTFS streams (`:…`), trailing dots and spaces.
fn folded(component: &str) -> String {
    let visible = component.chars().filter(|letter| !is_ignorable(*letter));
    // Through lower case first: `İ` becomes `i` and a combining dot (dropped below), and the Kelvin
    // sign becomes `k`.
    let upper: String = visible
        .flat_map(char::to_lowercase)
        .filter(|letter| *letter != '\u{307}')
        .flat_map(char::to_uppercase)
        .collect();
    let before_stream = upper.split(':').next().unwrap_or_default();
    before_stream.trim_end_matches(['.', ' ']).to_owned()
}

/// Returns whether HFS+ ignores the code point in comparisons, or it is invisible otherwise.
fn is_ignorable(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn is_dot_git(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GIT" || is_short_name(&folded, "GIT")
}

/// Returns whether git or some file system treats `component` as `.gitmodules`.
#[must_use]
pub fn is_dot_gitmodules(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GITMODULES" || is_short_name(&folded, "GITMOD") || folded.starts_with("GI7EBA~")
}

/// Returns whether git or some file system treats `component` as `.gitattributes`.
#[must_use]
pub fn is_dot_gitattributes(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GITATTRIBUTES" || is_short_name(&folded, "GITATT") || folded.starts_with("GI7D29~")
}

/// Returns whether `folded` is `<stem>~<digits>`, the short name (8.3) that NTFS gives to a long
/// one.
fn is_short_name(folded: &str, stem: &str) -> bool {
    let digits = folded.strip_prefix(stem).and_then(|rest| rest.strip_prefix('~'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
