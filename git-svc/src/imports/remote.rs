//! A remote: its normalized address, its login, and how both are stored.

use ferrite_core::{Secret, sealing::Sealer};
use ferrite_outbound::{OutboundUrl, Policy, Scheme, UrlRefusal};
use ferrite_proto::id::RepositoryId;
use git_store::types::error::GitError;

use super::{error::FetchError, options::Protocols};
use crate::transfer::push::RemoteLogin;

const GIT_PORT: u16 = 9418;
/// Limit on the length of a user name or password.
const MAX_LOGIN_BYTES: usize = 1024;
const GIT_SCHEME: &str = "git://";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Http,
    Https,
    /// git's own protocol, without encryption.
    Git,
}

impl Transport {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Git => "git",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Git => GIT_PORT,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: Secret,
}

/// A checked, normalized address without user and password, and the login for its server.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(super) transport: Transport,
    /// Host and port. Has scheme http for a `git:` address.
    server: OutboundUrl,
    host: String,
    port: u16,
    /// Without trailing slashes.
    path: String,
    pub(super) login: Option<Login>,
}

impl Remote {
    /// Parses an address. Uses the user and password in it unless `login` is given. Fails with
    /// `Invalid` for `url`, `username` or `password`.
    pub(crate) fn parse(
        text: &str,
        login: Option<Login>,
        policy: &Policy,
        protocols: Protocols,
    ) -> Result<Self, GitError> {
        let refused = |reason: String| GitError::invalid("url", "invalid", reason);
        let rule = |error: UrlRefusal| refused(error.to_string());
        let is_git = text.get(..GIT_SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(GIT_SCHEME));
        let url = if is_git { &with_git_port(&text[GIT_SCHEME.len()..]) } else { text };
        let url = OutboundUrl::parse(url, policy).map_err(rule)?;
        let (plain, username, password) = url.split_credentials().map_err(rule)?;
        let transport = match (is_git, url.scheme()) {
            (true, _) => Transport::Git,
            (false, Scheme::Http) => Transport::Http,
            (false, Scheme::Https) => Transport::Https,
        };
        let is_permitted = match transport {
            Transport::Http => protocols.http,
            Transport::Https => protocols.https,
            Transport::Git => protocols.git,
        };
        if !is_permitted {
            return Err(refused(format!("must not use the scheme `{}`", transport.scheme())));
        }
        if plain.contains(['?', '#']) {
            return Err(refused("must not have a query or fragment".to_owned()));
        }
        let own =
            (!username.is_empty() || !password.is_empty()).then(|| Login { username, password: Secret::new(password) });
        let login = login.or(own);
        if is_git && login.is_some() {
            return Err(refused("must not have a user or password: `git://` does not support them".to_owned()));
        }
        if let Some(login) = &login {
            check_login(login)?;
        }
        let rest = plain.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.find('/').map_or("", |slash| &rest[slash..]).trim_end_matches('/').to_owned();
        let (host, port) = (url.host().to_string(), url.port());
        let server = format!("{}://{host}:{port}/", url.scheme().as_str());
        let server = OutboundUrl::parse(&server, policy).map_err(rule)?;
        Ok(Self { transport, server, host, port, path, login })
    }

    /// Returns the remote of a stored address and login. Fails with `RefusedAddress` if the address
    /// is no longer permitted, and with `Sealed` if the login cannot be opened.
    pub(super) fn stored(
        id: RepositoryId,
        url: &str,
        sealed: Option<&[u8]>,
        sealer: &Sealer,
        policy: &Policy,
        protocols: Protocols,
    ) -> Result<Self, FetchError> {
        let login = sealed.map(|sealed| open(sealer, id, url, sealed)).transpose()?;
        Self::parse(url, login, policy, protocols).map_err(|_| FetchError::RefusedAddress)
    }

    /// Returns the address without user and password. Equal remotes have equal addresses.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.transport.scheme(), self.authority(), self.path)
    }

    /// Returns the host, and the port unless it is the scheme's default.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if *port == self.transport.default_port() { host.clone() } else { format!("{host}:{port}") }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn server(&self) -> &OutboundUrl {
        &self.server
    }

    pub(super) fn host_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the URL of a part of the repository, such as `/info/refs`.
    pub(super) fn endpoint(&self, part: &str, policy: &Policy) -> Result<OutboundUrl, FetchError> {
        OutboundUrl::parse(&format!("{}{part}", self.url()), policy).map_err(|_| FetchError::RefusedAddress)
    }

    /// Returns the remote at the target of a redirect. The login is kept only for the same scheme,
    /// host and port.
    pub(super) fn redirected(&self, url: &str, policy: &Policy, protocols: Protocols) -> Result<Self, FetchError> {
        let mut other = Self::parse(url, None, policy, protocols).map_err(|_| FetchError::RefusedAddress)?;
        let is_same =
            |other: &Self| (other.transport, &other.host, other.port) == (self.transport, &self.host, self.port);
        other.login = self.login.clone().filter(|_| is_same(&other));
        Ok(other)
    }

    /// Returns the remote of the wiki, by the convention of the large hosts: `name.wiki.git` beside
    /// `name` or `name.git`.
    pub(super) fn wiki(&self) -> Option<Self> {
        let name = self.path.strip_suffix(".git").unwrap_or(&self.path);
        let is_named = !name.is_empty() && !name.ends_with('/') && !name.ends_with(".wiki");
        is_named.then(|| Self { path: format!("{name}.wiki.git"), ..self.clone() })
    }

    /// Returns the login for git, valid for this server only.
    pub(super) fn remote_login(&self) -> Option<RemoteLogin> {
        let Login { username, password } = self.login.clone()?;
        Some(RemoteLogin { protocol: self.transport.scheme(), host: self.authority(), username, password })
    }

    /// Seals the login for the row of a repository. Fails only if the system has no random numbers.
    pub(crate) fn seal_login(&self, id: RepositoryId, sealer: &Sealer) -> Result<Option<Vec<u8>>, GitError> {
        let Some(login) = &self.login else { return Ok(None) };
        let text = format!("{}\n{}", login.username, login.password.expose());
        let sealed = sealer.seal(&place(id, &self.url()), &text);
        sealed.map(Some).map_err(|error| GitError::Internal(error.to_string()))
    }
}

fn open(sealer: &Sealer, id: RepositoryId, url: &str, sealed: &[u8]) -> Result<Login, FetchError> {
    let text = sealer.open(&place(id, url), sealed).map_err(|_| FetchError::Sealed)?;
    let (username, password) = text.expose().split_once('\n').ok_or(FetchError::Sealed)?;
    Ok(Login { username: username.to_owned(), password: Secret::new(password) })
}

/// Context of a sealed login: repository and address, so that a login is never sent to another
/// server.
fn place(id: RepositoryId, url: &str) -> Vec<u8> {
    format!("remote.login\0{id}\0{url}").into_bytes()
}

/// Returns an http URL for the part of a `git:` URL after the scheme, with git's default port if it
/// has none.
fn with_git_port(rest: &str) -> String {
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    if has_port { format!("http://{rest}") } else { format!("http://{authority}:{GIT_PORT}{path}") }
}

fn check_login(login: &Login) -> Result<(), GitError> {
    let fields = [("username", login.username.as_str()), ("password", login.password.expose())];
    for (field, text) in fields {
        if text.len() > MAX_LOGIN_BYTES {
            return Err(GitError::invalid(field, "too_long", "is too long"));
        }
        if text.chars().any(char::is_control) {
            return Err(GitError::invalid(field, "invalid", "must not contain control characters"));
        }
    }
    // Basic authentication splits at the first colon.
    if login.username.contains(':') {
        return Err(GitError::invalid("username", "invalid", "must not contain a colon"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Protocols = Protocols { http: true, https: true, git: true };

    fn parse(text: &str) -> Result<Remote, GitError> {
        Remote::parse(text, None, &Policy::default(), ALL)
    }

    #[test]
    fn addresses_have_one_form() {
        for (text, url) in [
            ("HTTPS://Example.com:443/a/b.git/", "https://example.com/a/b.git"),
            ("http://example.com", "http://example.com"),
            ("http://ada:secret@example.com:8080/a", "http://example.com:8080/a"),
            ("git://example.com/a.git", "git://example.com/a.git"),
            ("GIT://example.com:9418/a.git", "git://example.com/a.git"),
            ("git://example.com:1234/a.git", "git://example.com:1234/a.git"),
            ("https://[2606:4700::1]:8443/a", "https://[2606:4700::1]:8443/a"),
            ("git://[2606:4700::1]/a", "git://[2606:4700::1]/a"),
        ] {
            assert_eq!(parse(text).unwrap().url(), url);
            assert_eq!(parse(url).unwrap().url(), url);
        }
    }

    #[test]
    fn other_addresses_are_refused_by_their_field() {
        for text in [
            "",
            "/srv/a.git",
            "file:///srv/a.git",
            "ssh://git@example.com/a.git",
            "git@example.com:a.git",
            "ext::sh -c id",
            "--upload-pack=id",
            "http://127.0.0.1/a.git",
            "http://[::1]/a.git",
            "http://10.0.0.1/",
            "http://2130706433/a",
            "http://0x7f.1/a",
            "git://127.0.0.1/a.git",
            "git://ada:x@example.com/a.git",
            "http://example.com/a?b=c",
            "http://example.com/a#b",
            "http://example.com/a\nb",
            "ftp://example.com/a",
            "http://a%00b@example.com/",
        ] {
            assert!(matches!(parse(text), Err(GitError::Invalid(error)) if error.field == "url"), "{text:?}");
        }
        let only_https = Protocols { http: false, https: true, git: false };
        for text in ["http://example.com/a", "git://example.com/a"] {
            assert!(Remote::parse(text, None, &Policy::default(), only_https).is_err(), "{text}");
        }
        let login = |username: &str, password: &str| {
            let login = Login { username: username.to_owned(), password: Secret::new(password) };
            Remote::parse("https://example.com/a", Some(login), &Policy::default(), ALL)
        };
        assert!(matches!(login("a:b", "x"), Err(GitError::Invalid(error)) if error.field == "username"));
        assert!(matches!(login("a", "x\ny"), Err(GitError::Invalid(error)) if error.field == "password"));
        assert!(login("", "token").is_ok());
    }

    #[test]
    fn a_login_stays_with_its_server() {
        let remote = parse("https://ada:secret@example.com/a.git").unwrap();
        for (url, is_kept) in [
            ("https://example.com/b.git", true),
            ("https://example.com:443/b.git", true),
            ("http://example.com/a.git", false),
            ("https://example.com:444/a.git", false),
            ("https://other.example/a.git", false),
        ] {
            let other = remote.redirected(url, &Policy::default(), ALL).unwrap();
            assert_eq!(other.remote_login().is_some(), is_kept, "{url}");
        }
        assert!(matches!(
            remote.redirected("http://169.254.169.254/a", &Policy::default(), ALL),
            Err(FetchError::RefusedAddress)
        ));
    }

    #[test]
    fn a_sealed_login_opens_for_its_repository_and_address_only() {
        let sealer = Sealer::new(&[1; 32], &[], "git-svc");
        let remote = parse("https://ada:s%3aecret@example.com/a.git").unwrap();
        let sealed = remote.seal_login(RepositoryId(1), &sealer).unwrap().unwrap();
        let stored =
            |id, url: &str| Remote::stored(RepositoryId(id), url, Some(&sealed), &sealer, &Policy::default(), ALL);
        assert_eq!(stored(1, &remote.url()).unwrap().login, remote.login);
        assert!(matches!(stored(2, &remote.url()), Err(FetchError::Sealed)));
        assert!(matches!(stored(1, "https://evil.example/a.git"), Err(FetchError::Sealed)));
        assert!(!format!("{remote:?}").contains("s:ecret"));
    }

    #[test]
    fn the_wiki_stands_beside_its_repository() {
        let wiki = |text: &str| parse(text).unwrap().wiki().map(|wiki| wiki.url());
        let expected = Some("https://example.com/o/r.wiki.git".to_owned());
        assert_eq!(wiki("https://example.com/o/r"), expected);
        assert_eq!(wiki("https://example.com/o/r.git"), expected);
        assert_eq!(wiki("https://example.com/o/r.wiki.git"), None);
        assert_eq!(wiki("https://example.com/"), None);
    }
}
