//! Validated names of branches and refs.

use ferrite_core::text::check_line;

use super::error::GitError;

/// Longest branch name, in bytes.
pub const MAX_BRANCH: usize = 1000;

/// Longest component of a ref name, in bytes: file systems allow 255, and git appends `.lock`.
const MAX_PART: usize = 250;

/// The reason why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("must not be empty")]
    Empty,
    /// The name or one component is too long.
    #[error("is too long")]
    TooLong,
    /// A control byte or space, or one of `~^:?*[\`.
    #[error("contains a character that git does not allow")]
    Character,
    /// `..`, `@{`, `//`, a component that starts with a dot or ends in `.lock`, a final dot.
    #[error("contains a sequence that git does not allow")]
    Sequence,
    /// `-…`, `refs/…`, `HEAD`, `@` or forty hex digits, which git would read as something else.
    #[error("must not start with `-` or `refs/`, or be `HEAD`, `@` or an object id")]
    Misleading,
    /// The name does not start with `refs/`.
    #[error("is not a full ref name")]
    NotFull,
}

impl NameError {
    /// Returns the `Invalid` error of `field`.
    #[must_use]
    pub fn of(self, field: &str) -> GitError {
        let code = match self {
            Self::Empty => "required",
            Self::TooLong => "too_long",
            Self::Character | Self::Sequence | Self::Misleading | Self::NotFull => "invalid",
        };
        GitError::invalid(field, code, self.to_string())
    }
}

/// Checks a branch, tag or path in `field` that the API creates. Git allows bidirectional
/// characters, with which a name is shown as another one; names that were pushed keep them.
pub fn check_new_name(name: &[u8], field: &str) -> Result<(), GitError> {
    check_line(&String::from_utf8_lossy(name), field).map_err(GitError::Invalid)
}

/// Checks the rules of `git check-ref-format --allow-onelevel`, and the length limits.
fn check(name: &[u8]) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || b"~^:?*[\\".contains(byte)) {
        return Err(NameError::Character);
    }
    let pair = |wanted: &[u8; 2]| name.windows(2).any(|found| found == wanted);
    if pair(b"..") || pair(b"@{") || name.ends_with(b".") || name == b"@" {
        return Err(NameError::Sequence);
    }
    for part in name.split(|byte| *byte == b'/') {
        if part.is_empty() || part.starts_with(b".") || part.ends_with(b".lock") {
            return Err(NameError::Sequence);
        }
        if part.len() > MAX_PART {
            return Err(NameError::TooLong);
        }
    }
    if name.len() > MAX_BRANCH + b"refs/heads/".len() {
        return Err(NameError::TooLong);
    }
    Ok(())
}

/// The short name of a branch, which git cannot mistake for an option, a full ref or an id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchName(Vec<u8>);

impl BranchName {
    /// Validates a short branch name.
    pub fn parse(name: &[u8]) -> Result<Self, NameError> {
        check(name)?;
        if name.len() > MAX_BRANCH {
            return Err(NameError::TooLong);
        }
        let is_id = name.len() == 40 && name.iter().all(u8::is_ascii_hexdigit);
        if is_id || name.starts_with(b"-") || name.starts_with(b"refs/") || name == b"refs" || name == b"HEAD" {
            return Err(NameError::Misleading);
        }
        Ok(Self(name.to_vec()))
    }

    /// The name's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the full name, `refs/heads/…`.
    #[must_use]
    pub fn to_ref(&self) -> RefName {
        RefName([b"refs/heads/", self.0.as_slice()].concat())
    }
}

/// A full ref name: `refs/heads/main`, `refs/tags/v1`, `refs/notes/commits`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(Vec<u8>);

impl RefName {
    /// Validates a full ref name.
    pub fn parse(name: &[u8]) -> Result<Self, NameError> {
        check(name)?;
        if !name.starts_with(b"refs/") {
            return Err(NameError::NotFull);
        }
        Ok(Self(name.to_vec()))
    }

    /// The name's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the names above this one, such as `refs/heads/a` for `refs/heads/a/b`. No ref with
    /// such a name can exist beside this one.
    pub fn parents(&self) -> impl Iterator<Item = &[u8]> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(index, _)| &self.0[..index])
    }

    /// Returns the branch name if this is a branch with a valid [`BranchName`].
    #[must_use]
    pub fn branch(&self) -> Option<BranchName> {
        BranchName::parse(self.0.strip_prefix(b"refs/heads/")?).ok()
    }

    /// Returns the name without `refs/heads/` or `refs/tags/`; the whole name for other refs.
    #[must_use]
    pub fn short(&self) -> &[u8] {
        let short = self.0.strip_prefix(b"refs/heads/").or_else(|| self.0.strip_prefix(b"refs/tags/"));
        short.unwrap_or(&self.0)
    }

    /// Returns whether the ref is internal: clients can neither see nor change it.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        [b"refs/ferrite".as_slice(), b"refs/replace"].iter().any(|space| self.is_in(space))
    }

    /// Returns whether the ref belongs to a pull request: clients can fetch it, but neither list it
    /// through the API nor push to it.
    #[must_use]
    pub fn is_of_pull(&self) -> bool {
        self.is_in(b"refs/pull")
    }

    fn is_in(&self, space: &[u8]) -> bool {
        self.0.strip_prefix(space).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Returns the ref of the head of a pull request.
    #[must_use]
    pub fn of_pull_head(number: u64) -> Self {
        Self(format!("refs/pull/{number}/head").into_bytes())
    }

    /// Returns whether clients may push to the ref: not ours, with a valid short name.
    #[must_use]
    pub fn is_pushable(&self) -> bool {
        if self.is_hidden() || self.is_of_pull() {
            return false;
        }
        if let Some(short) = self.0.strip_prefix(b"refs/heads/").or_else(|| self.0.strip_prefix(b"refs/tags/")) {
            return BranchName::parse(short).is_ok();
        }
        // Clients may push only below a namespace, and `refs/x` has none.
        self.0.iter().filter(|byte| **byte == b'/').count() >= 2
    }

    /// Returns the name as text for libgit2; `None` if it is not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

printed! { BranchName RefName }

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_names_are_refused() {
        for name in
            ["-x", "refs/heads/x", "HEAD", "@", "a..b", "x.lock", "a.lock/b", ".a", "a/.b", "a.", "a b", "a~1", ""]
        {
            assert!(BranchName::parse(name.as_bytes()).is_err(), "{name}");
        }
        assert!(BranchName::parse(&[b'a'; 40]).is_err(), "forty hexadecimal digits");
        assert!(BranchName::parse(&[b'a'; 251]).is_err(), "the lock file's name would be too long");
        for name in ["main", "feature/one", "1234567", "a-b", "ünï", "a@b", "heads/x"] {
            assert!(BranchName::parse(name.as_bytes()).is_ok(), "{name}");
        }
        assert!(BranchName::parse(b"bytes-\xff").is_ok(), "git does not promise UTF-8");
    }

    #[test]
    fn new_names_have_no_bidirectional_characters() {
        for name in ["a\u{202e}b", "\u{2066}", "x\u{200f}", "a\nb", "a\u{85}b"] {
            let error = check_new_name(name.as_bytes(), "branch").unwrap_err();
            let message = "`branch`: must not contain control or bidirectional characters";
            assert_eq!(error.to_string(), message, "{name:?}");
        }
        for name in ["main".as_bytes(), "עברית".as_bytes(), b"bytes-\xff"] {
            assert!(check_new_name(name, "branch").is_ok(), "{name:?}");
        }
        assert!(BranchName::parse("a\u{202e}b".as_bytes()).is_ok(), "git accepts it in a push");
    }

    #[test]
    fn our_namespaces_cannot_be_pushed() {
        for name in
            ["refs/pull/1/head", "refs/ferrite/x", "refs/replace/abc", "refs/heads/-x", "refs/heads/HEAD", "refs/x"]
        {
            assert!(!RefName::parse(name.as_bytes()).expect(name).is_pushable(), "{name}");
        }
        for name in ["refs/heads/main", "refs/tags/v1", "refs/notes/commits", "refs/pulls/1", "refs/changes/1/2/3"] {
            assert!(RefName::parse(name.as_bytes()).expect(name).is_pushable(), "{name}");
        }
        assert!(RefName::parse(b"main").is_err());
        assert!(RefName::parse(b"refs/../x").is_err());
        let head = RefName::of_pull_head(7);
        assert_eq!(RefName::parse(b"refs/pull/7/head"), Ok(head.clone()));
        assert!(head.is_of_pull() && !head.is_hidden());
        for name in ["refs/pulls/7/head", "refs/heads/refs/pull/7"] {
            assert!(!RefName::parse(name.as_bytes()).expect(name).is_of_pull(), "{name}");
        }
    }

    #[test]
    fn agrees_with_git() {
        let samples: Vec<String> = [
            "main", "a/b", "a//b", "/a", "a/", "a.lock", "a.lock/b", "a..b", "@", "@{", "a@{b", "a@b", ".a", "a/.b",
            "a.", "a./b", "-a", "a b", "a\tb", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a]b", "a\\b", "HEAD",
            "a\u{7f}b", "é", "a.lockx", "lock", ".lock", "a{b", "@a", "a@",
        ]
        .map(str::to_owned)
        .to_vec();
        for name in samples {
            // git resolves `@` to the current branch; here it is invalid.
            let accepts = name != "@"
                && Command::new("git").args(["check-ref-format", "--branch", &name]).output().unwrap().status.success();
            assert_eq!(BranchName::parse(name.as_bytes()).is_ok(), accepts, "{name:?}");
            let full = format!("refs/heads/{name}");
            let accepts = Command::new("git").args(["check-ref-format", &full]).output().unwrap().status.success();
            assert_eq!(RefName::parse(full.as_bytes()).is_ok(), accepts, "{full:?}");
        }
    }

    proptest! {
        #[test]
        fn accepted_names_follow_the_rules(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(branch) = BranchName::parse(&name) {
                prop_assert_eq!(branch.as_bytes(), &name[..]);
                let full = RefName::parse(branch.to_ref().as_bytes()).expect("the full name of a branch is a ref name");
                prop_assert_eq!(full.branch(), Some(branch));
                prop_assert!(!name.contains(&0) && !name.contains(&b'\n') && !name.starts_with(b"-"));
            }
            if let Ok(full) = RefName::parse(&name) {
                prop_assert!(full.as_bytes().starts_with(b"refs/"));
            }
        }

        #[test]
        fn agrees_with_libgit2(name in "[a-z./@{~^:\\\\ -]{1,12}") {
            let full = format!("refs/heads/{name}");
            prop_assert_eq!(RefName::parse(full.as_bytes()).is_ok(), git2::Reference::is_valid_name(&full), "{}", full);
        }
    }
}
