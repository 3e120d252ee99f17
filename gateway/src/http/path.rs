//! Names, numbers and paths in a URL. Paths inside a repository are bytes because git does not
//! promise UTF-8.
//!
//! Unlike axum's, these extractors never reject a request: they replace an impossible name or
//! number by one that does not exist, so that the service responds with 404 in its order of checks.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use ferrite_proto::repo::RepositoryRef;
use percent_encoding::percent_decode_str;

use super::describe::Input;

const MAX_NAME_BYTES: usize = 255;

pub(crate) fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Decodes a name: UTF-8, 1 to 255 bytes, no control characters.
pub(crate) fn name(part: &str) -> Option<String> {
    let name = String::from_utf8(decode(part)).ok()?;
    let is_sane = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    is_sane.then_some(name)
}

/// Returns U+FFFD. It is never a valid name, so the lookup responds with 404.
fn unparsable_name() -> String {
    "\u{fffd}".to_owned()
}

/// Parses a positive 64-bit number, digits only.
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
    /// Everything after the operation, decoded. Slashes can be written as `%2F`.
    pub(crate) rest: Vec<u8>,
}

impl RepoPath {
    fn parse(path: &str) -> Self {
        let mut parts = path.splitn(8, '/').skip(4);
        let mut next = || parts.next().unwrap_or_default();
        let (owner, repo, _operation, rest) = (next().to_owned(), next().to_owned(), next(), decode(next()));
        Self { owner, repo, rest }
    }

    /// Returns the repository in the path. An impossible name becomes U+FFFD, so that repo-svc
    /// responds as for a missing repository.
    pub(crate) fn repository(&self) -> RepositoryRef {
        let owner = name(&self.owner).unwrap_or_else(unparsable_name);
        let name = name(&self.repo)
            .filter(|name| !name.to_ascii_lowercase().ends_with(".git"))
            .unwrap_or_else(unparsable_name);
        RepositoryRef::by_name(owner, name)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RepoPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.path()))
    }
}

impl Input for RepoPath {}

/// The path of a repository page outside of the API: `/{owner}/{repo}/{page}/{rest}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagePath(pub(crate) RepoPath);

impl<S: Send + Sync> FromRequestParts<S> for PagePath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The same as an API path after its first three parts.
        Ok(Self(RepoPath::parse(&format!("/api/v1/repos{}", parts.uri.path()))))
    }
}

impl Input for PagePath {}

/// The parameters of a route, still encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    fn parse(template: &str, path: &str) -> Self {
        let pairs = template.split('/').zip(path.split('/')).filter_map(|(part, text)| {
            let parameter = part.strip_prefix('{')?.strip_suffix('}')?;
            Some((parameter.to_owned(), text.to_owned()))
        });
        Self(pairs.collect())
    }

    fn raw(&self, parameter: &str) -> &str {
        self.0.iter().find(|(name, _)| name == parameter).map_or("", |(_, text)| text)
    }

    /// Returns a parameter as a name. An impossible one becomes U+FFFD: the service decides what is
    /// missing, and when to say so.
    pub(crate) fn name(&self, parameter: &str) -> String {
        name(self.raw(parameter)).unwrap_or_else(unparsable_name)
    }

    /// Returns a parameter as bytes, such as a revision.
    pub(crate) fn bytes(&self, parameter: &str) -> Vec<u8> {
        decode(self.raw(parameter))
    }

    /// Returns a parameter as it was sent, still encoded.
    pub(crate) fn sent(&self, parameter: &str) -> &str {
        self.raw(parameter)
    }

    /// As [`Self::name`]; `None` if the route has no such parameter.
    pub(crate) fn optional_name(&self, parameter: &str) -> Option<String> {
        self.has(parameter).then(|| self.name(parameter))
    }

    fn has(&self, parameter: &str) -> bool {
        self.0.iter().any(|(name, _)| name == parameter)
    }

    /// Returns a parameter as an id. Anything but a positive number becomes `i64::MAX`, which is
    /// never assigned.
    pub(crate) fn id(&self, parameter: &str) -> i64 {
        number(self.raw(parameter).as_bytes()).unwrap_or(i64::MAX)
    }

    /// As [`Self::id`]; zero if the route has no such parameter.
    pub(crate) fn id_or_zero(&self, parameter: &str) -> i64 {
        if self.has(parameter) { self.id(parameter) } else { 0 }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let template = parts.extensions.get::<MatchedPath>();
        Ok(template.map(|template| Self::parse(template.as_str(), parts.uri.path())).unwrap_or_default())
    }
}

impl Input for Params {}

#[cfg(test)]
mod tests {
    use ferrite_proto::repo::repository_ref;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repository_path_has_owner_name_and_rest() {
        let path = RepoPath::parse("/api/v1/repos/bob/demo/branches/feature%2Fone/%ff");
        assert_eq!((path.owner.as_str(), path.repo.as_str()), ("bob", "demo"));
        assert_eq!(path.rest, b"feature/one/\xff");
        assert_eq!(RepoPath::parse("/api/v1/repos/bob/demo").rest, b"");
    }

    fn named(path: &str) -> (String, String) {
        match RepoPath::parse(path).repository().by {
            Some(repository_ref::By::Name(name)) => (name.owner, name.name),
            Some(repository_ref::By::Id(_)) | None => panic!("by name"),
        }
    }

    #[test]
    fn names_that_cannot_exist_become_one_that_does_not() {
        let expected = ("bob".to_owned(), "demo".to_owned());
        assert_eq!(named("/api/v1/repos/b%6Fb/demo/keys/1"), expected);
        for path in ["/api/v1/repos/bob/demo.git", "/api/v1/repos/bob/demo.GIT", "/api/v1/repos/bob/%ff"] {
            assert_eq!(named(path).1, unparsable_name(), "{path}");
        }
        assert_eq!(named("/api/v1/repos/b%00b/demo").0, unparsable_name());
    }

    #[test]
    fn parameters_are_found_by_their_names() {
        let path = Params::parse("/api/v1/users/{username}/tokens/{name}", "/api/v1/users/b%6fb/tokens/my%20token");
        assert_eq!((path.name("username"), path.name("name")), ("bob".into(), "my token".into()));
        let team = |id: &str| Params::parse("/api/v1/teams/{id}", &format!("/api/v1/teams/{id}"));
        assert_eq!(team("7").id("id"), 7);
        for wrong in ["0", "-1", "x", "%37", "99999999999999999999"] {
            assert_eq!(team(wrong).id("id"), i64::MAX, "{wrong}");
        }
        assert_eq!(
            (team("x").id_or_zero("id"), team("7").id_or_zero("id"), team("7").id_or_zero("index")),
            (i64::MAX, 7, 0)
        );
        for wrong in ["%ff", "a%0Ab", ""] {
            assert_eq!(team(wrong).name("id"), unparsable_name(), "{wrong}");
        }
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
            let params = Params::parse("/{a}/{b}", &path);
            prop_assert!(!params.name("a").is_empty() && params.id("b") > 0);
            let _ = number(path.as_bytes());
        }
    }
}
