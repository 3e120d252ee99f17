//! URLs in responses. All start with the configured public URL, never with a request's `Host`.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All characters but the unreserved ones of RFC 3986 are encoded.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes a path segment or query value.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    Cow::from(percent_encode(bytes, RESERVED)).into_owned()
}

/// Encodes a path, keeping its slashes.
#[must_use]
pub fn encode_path(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'/').map(encode).collect::<Vec<_>>().join("/")
}

/// Builds URLs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Links {
    root: Arc<str>,
    ssh: Arc<str>,
}

impl Links {
    /// Creates links below `public_url` (no trailing slash). `ssh` is the `HOST:PORT` of SSH URLs.
    #[must_use]
    pub fn new(public_url: &str, ssh: &str) -> Self {
        Self { root: public_url.into(), ssh: ssh.into() }
    }

    /// The public URL, without trailing slash.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the URL of a path in the API, such as `/teams/7`.
    #[must_use]
    pub fn api(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.root)
    }

    /// Returns the URL of the API's documentation.
    #[must_use]
    pub fn docs(&self) -> String {
        format!("{}/docs/api", self.root)
    }

    /// Returns the URL of an account's picture.
    #[must_use]
    pub fn avatar(&self, user_id: i64) -> String {
        format!("{}/avatars/{user_id}", self.root)
    }

    /// Returns an email address for a user whose own is not shown. It receives no mail.
    #[must_use]
    pub fn no_reply_address(&self, username: &str) -> String {
        format!("{username}@noreply.{}", self.host())
    }

    /// The host of the public URL, without its port.
    fn host(&self) -> &str {
        let rest = self.root.split_once("://").map_or(&*self.root, |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or(rest);
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// Returns the URL of a public key in the API.
    #[must_use]
    pub fn public_key(&self, id: i64) -> String {
        self.api(&format!("/user/keys/{id}"))
    }

    /// Returns the URL of a label of an organization in the API.
    #[must_use]
    pub fn organization_label(&self, organization: &str, id: i64) -> String {
        self.api(&format!("/orgs/{}/labels/{id}", encode(organization.as_bytes())))
    }

    /// Returns the links of one repository.
    #[must_use]
    pub fn repository(&self, owner: &str, name: &str) -> RepositoryLinks {
        let mut path = String::with_capacity(owner.len() + 1 + name.len());
        path.extend(percent_encode(owner.as_bytes(), RESERVED));
        path.push('/');
        path.extend(percent_encode(name.as_bytes(), RESERVED));
        RepositoryLinks { links: self.clone(), path }
    }
}

/// Builds URLs of one repository.
#[derive(Clone, Debug)]
pub struct RepositoryLinks {
    links: Links,
    path: String,
}

impl RepositoryLinks {
    /// Returns the links outside the repository.
    #[must_use]
    pub fn site(&self) -> &Links {
        &self.links
    }

    /// `owner/name`. Neither part needs encoding.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.path
    }

    /// Returns the URL of the repository's page.
    #[must_use]
    pub fn html(&self) -> String {
        [&*self.links.root, "/", &self.path].concat()
    }

    /// Returns the HTTP clone URL.
    #[must_use]
    pub fn clone_http(&self) -> String {
        [&*self.links.root, "/", &self.path, ".git"].concat()
    }

    /// Returns the SSH clone URL, in short form for port 22.
    #[must_use]
    pub fn clone_ssh(&self) -> String {
        match self.links.ssh.rsplit_once(':') {
            Some((host, "22")) => ["git@", host, ":", &self.path, ".git"].concat(),
            _ => ["ssh://git@", &self.links.ssh, "/", &self.path, ".git"].concat(),
        }
    }

    /// Returns the URL of the repository in the API.
    #[must_use]
    pub fn api(&self) -> String {
        format!("{}/api/v1/repos/{}", self.links.root, self.path)
    }

    /// Returns the API URL of the languages of the repository.
    #[must_use]
    pub fn languages(&self) -> String {
        format!("{}/languages", self.api())
    }

    /// Returns the API URL of the caller's subscription to the repository.
    #[must_use]
    pub fn subscription(&self) -> String {
        format!("{}/subscription", self.api())
    }

    /// Returns the URL of a deploy key in the API.
    #[must_use]
    pub fn deploy_key(&self, id: i64) -> String {
        format!("{}/keys/{id}", self.api())
    }

    /// Returns the URL of a release in the API.
    #[must_use]
    pub fn release(&self, id: i64) -> String {
        format!("{}/releases/{id}", self.api())
    }

    /// Returns the URL of a release page.
    #[must_use]
    pub fn release_html(&self, tag_name: &str) -> String {
        format!("{}/releases/tag/{}", self.html(), encode(tag_name.as_bytes()))
    }

    /// Returns the download URL of a release file.
    #[must_use]
    pub fn release_download(&self, tag_name: &str, name: &str) -> String {
        format!("{}/releases/download/{}/{}", self.html(), encode(tag_name.as_bytes()), encode(name.as_bytes()))
    }

    /// Returns the API URL of an archive; `ending` is the file extension (`zip`).
    #[must_use]
    pub fn archive(&self, revision: &str, ending: &str) -> String {
        format!("{}/archive/{}.{ending}", self.api(), encode_path(revision.as_bytes()))
    }

    /// Returns the URL of a label in the API.
    #[must_use]
    pub fn label(&self, id: i64) -> String {
        format!("{}/labels/{id}", self.api())
    }

    /// Returns the URL of a label of the organization that owns the repository, in the API.
    #[must_use]
    pub fn organization_label(&self, id: i64) -> String {
        let owner = self.path.split('/').next().unwrap_or_default();
        self.links.api(&format!("/orgs/{owner}/labels/{id}"))
    }

    /// Returns the page URL of an issue or pull request.
    #[must_use]
    pub fn issue_html(&self, number: i64, is_pull_request: bool) -> String {
        format!("{}/{}/{number}", self.html(), if is_pull_request { "pulls" } else { "issues" })
    }

    /// Returns the URL of a comment on its issue's page.
    #[must_use]
    pub fn comment_html(&self, number: i64, is_pull_request: bool, id: i64) -> String {
        format!("{}#issuecomment-{id}", self.issue_html(number, is_pull_request))
    }

    /// Returns the URL of a commit in the API.
    #[must_use]
    pub fn commit(&self, id: &str) -> String {
        format!("{}/commits/{id}", self.api())
    }

    /// Returns the URL of the statuses of a commit in the API.
    #[must_use]
    pub fn statuses(&self, id: &str) -> String {
        format!("{}/statuses/{id}", self.api())
    }

    /// Returns the URL of a commit page.
    #[must_use]
    pub fn commit_html(&self, id: &str) -> String {
        format!("{}/commits/{id}", self.html())
    }

    /// Returns the URL of a commit page in the form that webhooks and branches have.
    #[must_use]
    pub fn commit_page(&self, id: &str) -> String {
        format!("{}/commit/{id}", self.html())
    }

    /// Returns the URL of a tree in the API.
    #[must_use]
    pub fn tree(&self, id: &str) -> String {
        format!("{}/git/trees/{id}", self.api())
    }

    /// Returns the URL of a blob in the API.
    #[must_use]
    pub fn blob(&self, id: &str) -> String {
        format!("{}/git/blobs/{id}", self.api())
    }

    /// Returns the URL of an annotated tag in the API.
    #[must_use]
    pub fn tag_object(&self, id: &str) -> String {
        format!("{}/git/tags/{id}", self.api())
    }

    /// Returns the API URL of a ref by full name (`refs/heads/main`).
    #[must_use]
    pub fn reference(&self, name: &[u8]) -> String {
        format!("{}/git/{}", self.api(), encode_path(name))
    }

    /// Returns the API URL of a file or folder, at a revision or on the default branch.
    #[must_use]
    pub fn contents(&self, path: &[u8], revision: Option<&[u8]>) -> String {
        let query = revision.map(|revision| format!("?ref={}", encode(revision))).unwrap_or_default();
        format!("{}/contents/{}{query}", self.api(), encode_path(path))
    }

    /// Returns the page URL of a file or folder.
    #[must_use]
    pub fn source(&self, revision: &[u8], path: &[u8]) -> String {
        format!("{}/src/{}/{}", self.html(), encode_path(revision), encode_path(path))
    }

    /// Returns the API URL of a raw file.
    #[must_use]
    pub fn raw(&self, revision: &[u8], path: &[u8]) -> String {
        format!("{}/raw/{}/{}", self.api(), encode_path(revision), encode_path(path))
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
    fn addresses_without_mail_have_the_host() {
        for (root, host) in
            [("http://h", "h"), ("https://git.example.com:8443/sub", "git.example.com"), ("http://[::1]:3000", "[::1]")]
        {
            assert_eq!(Links::new(root, "h:22").no_reply_address("ada"), format!("ada@noreply.{host}"));
        }
        assert_eq!(Links::new("http://[::1]", "h:22").no_reply_address("ada"), "ada@noreply.[::1]");
    }

    #[test]
    fn labels_of_an_organization_are_below_it() {
        let links = Links::new("http://h/sub", "h:22");
        let url = "http://h/sub/api/v1/orgs/acme/labels/5";
        assert_eq!(links.organization_label("acme", 5), url);
        assert_eq!(links.repository("acme", "demo").organization_label(5), url);
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
        assert_eq!(
            links.raw(b"feature/one", b"a b/\xff?.txt"),
            "http://h/sub/api/v1/repos/bob/demo/raw/feature/one/a%20b/%FF%3F.txt"
        );
        assert_eq!(links.clone_http(), "http://h/sub/bob/demo.git");
    }
}
