//! URLs inside responses. All begin with the configured public URL, never with the `Host` of a request.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Characters that are encoded: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes one part of a path, or a value of a query.
pub(crate) fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string()
}

/// Encodes a path and keeps its slashes.
pub(crate) fn encode_path(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'/').map(encode).collect::<Vec<_>>().join("/")
}

/// Makes URLs; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    root: Arc<str>,
    ssh: Arc<str>,
}

impl Links {
    /// URLs below `public_url` (without a slash at the end); those of SSH have `ssh`, a `HOST:PORT`.
    pub(crate) fn new(public_url: &str, ssh: &str) -> Self {
        Self { root: public_url.into(), ssh: ssh.into() }
    }

    /// Returns the public URL, without a slash at the end.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Returns the URL of the API's documentation.
    pub(crate) fn docs(&self) -> String {
        format!("{}/docs/api", self.root)
    }

    pub(crate) fn avatar(&self, user_id: i64) -> String {
        format!("{}/avatars/{user_id}", self.root)
    }

    pub(crate) fn public_key(&self, id: i64) -> String {
        format!("{}/api/v1/user/keys/{id}", self.root)
    }

    /// Returns the maker of URLs of one repository.
    pub(crate) fn repository(&self, owner: &str, name: &str) -> RepositoryLinks {
        RepositoryLinks {
            links: self.clone(),
            path: format!("{}/{}", encode(owner.as_bytes()), encode(name.as_bytes())),
        }
    }
}

/// Makes URLs of one repository.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryLinks {
    links: Links,
    path: String,
}

impl RepositoryLinks {
    /// Returns the maker of URLs outside of the repository.
    pub(crate) fn site(&self) -> &Links {
        &self.links
    }

    /// Returns `owner/name`, of which no character needs an encoding.
    pub(crate) fn full_name(&self) -> &str {
        &self.path
    }

    pub(crate) fn html(&self) -> String {
        format!("{}/{}", self.links.root, self.path)
    }

    pub(crate) fn clone_http(&self) -> String {
        format!("{}/{}.git", self.links.root, self.path)
    }

    pub(crate) fn clone_ssh(&self) -> String {
        match self.links.ssh.rsplit_once(':') {
            Some((host, "22")) => format!("git@{host}:{}.git", self.path),
            _ => format!("ssh://git@{}/{}.git", self.links.ssh, self.path),
        }
    }

    fn api(&self) -> String {
        format!("{}/api/v1/repos/{}", self.links.root, self.path)
    }

    pub(crate) fn deploy_key(&self, id: i64) -> String {
        format!("{}/keys/{id}", self.api())
    }

    pub(crate) fn label(&self, id: i64) -> String {
        format!("{}/labels/{id}", self.api())
    }

    /// Returns the URL of an issue, or of a pull request.
    pub(crate) fn issue_html(&self, number: i64, is_pull_request: bool) -> String {
        format!("{}/{}/{number}", self.html(), if is_pull_request { "pulls" } else { "issues" })
    }

    pub(crate) fn comment_html(&self, number: i64, is_pull_request: bool, id: i64) -> String {
        format!("{}#issuecomment-{id}", self.issue_html(number, is_pull_request))
    }

    pub(crate) fn commit(&self, id: &str) -> String {
        format!("{}/commits/{id}", self.api())
    }

    pub(crate) fn commit_html(&self, id: &str) -> String {
        format!("{}/commits/{id}", self.html())
    }

    pub(crate) fn tree(&self, id: &str) -> String {
        format!("{}/git/trees/{id}", self.api())
    }

    pub(crate) fn blob(&self, id: &str) -> String {
        format!("{}/git/blobs/{id}", self.api())
    }

    pub(crate) fn tag_object(&self, id: &str) -> String {
        format!("{}/git/tags/{id}", self.api())
    }

    /// Returns the URL of a ref; `name` is its full name (`refs/heads/main`).
    pub(crate) fn reference(&self, name: &[u8]) -> String {
        format!("{}/git/{}", self.api(), encode_path(name))
    }

    pub(crate) fn contents(&self, path: &[u8], revision: Option<&[u8]>) -> String {
        let query = revision.map(|revision| format!("?ref={}", encode(revision))).unwrap_or_default();
        format!("{}/contents/{}{query}", self.api(), encode_path(path))
    }

    pub(crate) fn source(&self, revision: &[u8], path: &[u8]) -> String {
        format!("{}/src/{}/{}", self.html(), encode_path(revision), encode_path(path))
    }

    pub(crate) fn raw(&self, revision: &[u8], path: &[u8]) -> String {
        format!("{}/raw/{}/{}", self.html(), encode_path(revision), encode_path(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_urls_have_the_port_unless_it_is_22() {
        let usual = Links::new("http://h", "git.example.com:22").repository("bob", "demo");
        assert_eq!(usual.clone_ssh(), "git@git.example.com:bob/demo.git");
        let other = Links::new("http://h", "git.example.com:2222").repository("bob", "demo");
        assert_eq!(other.clone_ssh(), "ssh://git@git.example.com:2222/bob/demo.git");
    }

    #[test]
    fn paths_and_refs_are_encoded_part_by_part() {
        let links = Links::new("http://h/sub", "h:22").repository("bob", "demo");
        assert_eq!(
            links.source(b"feature/one", b"a b/\xff?.txt"),
            "http://h/sub/bob/demo/src/feature/one/a%20b/%FF%3F.txt"
        );
        assert_eq!(
            links.contents(b"src/main.rs", Some(b"feature/one")),
            "http://h/sub/api/v1/repos/bob/demo/contents/src/main.rs?ref=feature%2Fone"
        );
        assert_eq!(links.clone_http(), "http://h/sub/bob/demo.git");
    }
}
