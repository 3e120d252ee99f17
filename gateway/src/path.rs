//! Names and paths out of the URL, as bytes: git does not promise UTF-8, and axum's own extractors refuse in plain text.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ferrite_proto::repo::{RepositoryName, RepositoryRef, repository_ref};
use percent_encoding::percent_decode_str;

const MAX_NAME_BYTES: usize = 255;

/// The bytes that a part of a URL's path stands for.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// A name as it may exist: text, not empty, without control characters.
pub(crate) fn name(part: &str) -> Option<String> {
    let name = String::from_utf8(decode(part)).ok()?;
    let is_sane = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    is_sane.then_some(name)
}

/// A positive 64-bit number in plain digits.
pub(crate) fn number(part: &[u8]) -> Option<i64> {
    let is_plain = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(part).ok().filter(|_| is_plain)?.parse().ok()?;
    (number > 0).then_some(number)
}

/// The path of an operation inside a repository: `/api/v1/repos/{owner}/{repo}/{operation}/{rest}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepoPath {
    owner: String,
    repo: String,
    /// What follows the operation, decoded; a slash may have been written as `%2F`.
    pub(crate) rest: Vec<u8>,
}

impl RepoPath {
    fn parse(path: &str) -> Self {
        let mut parts = path.splitn(8, '/').skip(4);
        let mut next = || parts.next().unwrap_or_default();
        let (owner, repo, _operation, rest) = (next().to_owned(), next().to_owned(), next(), decode(next()));
        Self { owner, repo, rest }
    }

    /// The repository named, unless nothing can have such a name.
    pub(crate) fn repository(&self) -> Option<RepositoryRef> {
        let name = name(&self.repo)?;
        if name.to_ascii_lowercase().ends_with(".git") {
            return None;
        }
        let name = RepositoryName { owner: self::name(&self.owner)?, name };
        Some(RepositoryRef { by: Some(repository_ref::By::Name(name)) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RepoPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.path()))
    }
}

/// The path of an operation on an account: `/api/v1/users/{username}/{operation}/{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserPath {
    /// The account, unless nobody can have such a name.
    pub(crate) username: Option<String>,
    /// What follows the operation.
    pub(crate) rest: Option<String>,
}

impl UserPath {
    fn parse(path: &str) -> Self {
        let mut parts = path.splitn(7, '/').skip(4);
        let username = parts.next().and_then(name);
        let rest = parts.nth(1).and_then(name);
        Self { username, rest }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for UserPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.path()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repository_path_has_owner_name_and_rest() {
        let path = RepoPath::parse("/api/v1/repos/bob/demo/branches/feature%2Fone/%ff");
        assert_eq!((path.owner.as_str(), path.repo.as_str()), ("bob", "demo"));
        assert_eq!(path.rest, b"feature/one/\xff");
        assert!(path.repository().is_some());
        assert_eq!(RepoPath::parse("/api/v1/repos/bob/demo").rest, b"");
    }

    #[test]
    fn names_that_cannot_exist_are_nobodys() {
        for path in [
            "/api/v1/repos/bob/demo.git",
            "/api/v1/repos/bob/demo.GIT",
            "/api/v1/repos/b%00b/demo",
            "/api/v1/repos/bob/%ff",
        ] {
            assert_eq!(RepoPath::parse(path).repository(), None, "{path}");
        }
        assert_eq!(UserPath::parse("/api/v1/users/a%0Ab").username, None);
    }

    #[test]
    fn a_user_path_has_a_name_and_a_rest() {
        let path = UserPath::parse("/api/v1/users/bob/tokens/my%20token");
        assert_eq!(path, UserPath { username: Some("bob".into()), rest: Some("my token".into()) });
        assert_eq!(UserPath::parse("/api/v1/users/bob/tokens").rest, None);
    }

    #[test]
    fn numbers_are_positive_plain_digits() {
        assert_eq!(number(b"7"), Some(7));
        assert_eq!(number(b"9223372036854775807"), Some(i64::MAX));
        for wrong in ["", "0", "-1", "+1", "abc", "1a", " 1", "9223372036854775808", "1/2"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in any::<String>()) {
            let _ = RepoPath::parse(&path).repository();
            let _ = UserPath::parse(&path);
            let _ = number(path.as_bytes());
        }
    }
}
