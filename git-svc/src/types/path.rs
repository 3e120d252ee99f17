//! Paths inside a tree. Not here: paths on disk, which are made from ids only (`layout`).

use std::fmt;

use super::error::GitError;

/// The longest path, in bytes.
pub const MAX_PATH: usize = 4096;

/// The longest component, in bytes.
pub const MAX_COMPONENT: usize = 255;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing there.
    #[error("must not be empty")]
    Empty,
    /// The whole, or one component.
    #[error("is too long")]
    TooLong,
    /// Not UTF-8, a control character, or a backslash.
    #[error("holds a character that is not allowed")]
    Character,
    /// An empty component, `.` or `..`.
    #[error("must not hold an empty component, `.` or `..`")]
    Component,
    /// A component that some file system reads as `.git`.
    #[error("must not lead into `.git`")]
    DotGit,
}

impl PathError {
    /// This refusal as the refusal of `field`.
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
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// A path to write to: no component may mean anything but itself to any file system.
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

    /// A path to read, cleaned as a browser would: empty components and `.` vanish, `..` takes one away and stops at the root.
    ///
    /// Whatever comes out is looked up entry by entry, so it leads nowhere but into the tree.
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

    /// A path to read, taken as it is: a component that no tree can hold is refused.
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

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its components from the root; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// The last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.components().next_back().unwrap_or_default()
    }

    /// The path of the entry `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        if self.is_root() { name.to_vec() } else { [self.as_bytes(), b"/", name].concat() }
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), out)
    }
}

/// A component as the least careful of all file systems reads it: upper case, without what they skip or cut off.
fn folded(component: &str) -> String {
    let visible = component.chars().filter(|letter| !is_ignorable(*letter));
    // Through lower case first: it turns İ into i with a combining dot, and the sign for kelvin into k.
    let upper: String = visible
        .flat_map(char::to_lowercase)
        .filter(|letter| *letter != '\u{307}')
        .flat_map(char::to_uppercase)
        .collect();
    let before_stream = upper.split(':').next().unwrap_or_default();
    before_stream.trim_end_matches(['.', ' ']).to_owned()
}

/// Code points that HFS+ skips when it compares names, and others that are not seen.
fn is_ignorable(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Whether some file system reads `component` as `.git`.
fn is_dot_git(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GIT" || is_short_name(&folded, "GIT")
}

/// Whether `component` is `.gitmodules` to git or to some file system.
#[must_use]
pub fn is_dot_gitmodules(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GITMODULES" || is_short_name(&folded, "GITMOD") || folded.starts_with("GI7EBA~")
}

/// Whether `component` is `.gitattributes` to git or to some file system.
#[must_use]
pub fn is_dot_gitattributes(component: &str) -> bool {
    let folded = folded(component);
    folded == ".GITATTRIBUTES" || is_short_name(&folded, "GITATT") || folded.starts_with("GI7D29~")
}

/// Whether it is `stem~1` or the like: the short name that NTFS gives to a longer one.
fn is_short_name(folded: &str, stem: &str) -> bool {
    let digits = folded.strip_prefix(stem).and_then(|rest| rest.strip_prefix('~'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_of_dot_git_is_refused() {
        for path in [
            ".git",
            ".git/config",
            "a/.GIT/x",
            ".Git ",
            ".git.",
            ".git. .",
            "git~1",
            "GIT~1/x",
            "git~2",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{202e}t",
            "a/.git\u{206a}/b",
            ".g\u{131}t",
            ".g\u{130}t",
            "git~1.",
            ".git \u{200d}.",
        ] {
            assert_eq!(TreePath::strict(path.as_bytes()), Err(PathError::DotGit), "{path:?}");
        }
        for path in [".gitignore", ".github/x", "git", "a.git", ".gitmodules", "git~", "git~x", "x~1", "..."] {
            assert!(TreePath::strict(path.as_bytes()).is_ok(), "{path:?}");
        }
    }

    #[test]
    fn writes_take_no_odd_component() {
        for path in
            ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\0b", "a\nb", "a\u{7f}", "a\u{85}"]
        {
            assert!(TreePath::strict(path.as_bytes()).is_err(), "{path:?}");
        }
        assert!(TreePath::strict(b"\xff").is_err());
        assert!(TreePath::strict("a".repeat(256).as_bytes()).is_err());
        assert!(TreePath::strict("a/".repeat(2048).as_bytes()).is_err());
        assert_eq!(TreePath::strict("dir/ü x.txt".as_bytes()).unwrap().name(), "ü x.txt".as_bytes());
    }

    #[test]
    fn reads_are_cleaned_and_stay_inside() {
        for (path, clean) in [("/a//b/", "a/b"), ("a/../../b", "b"), ("./a/.", "a"), ("..", ""), ("", "")] {
            assert_eq!(TreePath::clean(path.as_bytes()).unwrap().as_bytes(), clean.as_bytes(), "{path:?}");
        }
        assert!(TreePath::literal(b"a/../b").is_err());
        assert!(TreePath::literal(b"a//b").is_err());
        assert_eq!(TreePath::literal(b"a/.git").unwrap().join(b"x"), b"a/.git/x");
    }

    #[test]
    fn files_that_git_reads_are_known_in_disguise() {
        assert!(
            is_dot_gitmodules(".GitModules") && is_dot_gitmodules("gitmod~1") && is_dot_gitmodules(".gitmodules .")
        );
        assert!(is_dot_gitattributes(".gitattributes") && !is_dot_gitattributes("gitattributes"));
    }

    proptest! {
        #[test]
        fn accepted_paths_obey_the_rules(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(strict) = TreePath::strict(&path) {
                prop_assert_eq!(strict.as_bytes(), &path[..]);
                prop_assert!(strict.components().all(|part| part != b".." && part != b"." && !part.eq_ignore_ascii_case(b".git")));
                prop_assert_eq!(TreePath::clean(&path).unwrap(), TreePath::literal(&path).unwrap());
            }
            if let Ok(clean) = TreePath::clean(&path) {
                prop_assert!(clean.components().all(|part| part != b".." && part != b"." && !part.is_empty()));
            }
            let _ = TreePath::literal(&path);
        }

        #[test]
        fn decorated_dot_git_is_refused(prefix in "(a/)?", tail in "[. ]{0,4}(:[a-z$]{0,5})?", upper in any::<bool>()) {
            let name = if upper { ".GIT" } else { ".gIt" };
            let path = format!("{prefix}{name}{tail}");
            prop_assert!(TreePath::strict(path.as_bytes()).is_err());
        }
    }
}
