//! URLs from users. Names are resolved only on use.

#[cfg(test)]
mod tests;

use std::fmt;

use http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;

use crate::address::AddressClass;
use crate::host::Host;
use crate::policy::Policy;

const MAX_URL_BYTES: usize = 2048;
/// Replaces secrets in [`OutboundUrl::shown`].
const MASK: &str = "***";

/// An absolute http or https URL whose host all parsers read the same way.
///
/// The text is kept as written. User and password are sent as Basic authentication; a fragment is
/// kept and not sent. `Debug` and `Display` print [`OutboundUrl::shown`].
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundUrl {
    text: String,
    shown: String,
    parts: Parts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    scheme: Scheme,
    credentials: Option<Credentials>,
    host: Host,
    port: u16,
    target: PathAndQuery,
}

/// The scheme of an [`OutboundUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// Returns the scheme in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// User and password, decoded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[secret]")
    }
}

/// Why a text is not an [`OutboundUrl`]. The messages quote no part of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    /// The text is empty.
    #[error("is required")]
    Empty,
    /// The text is too long.
    #[error("must have at most {MAX_URL_BYTES} bytes")]
    TooLong,
    /// A character that must be percent-encoded: spaces, backslashes, anything outside ASCII.
    #[error("has a character that must be percent-encoded")]
    Character,
    /// Another scheme, or none.
    #[error("must be an absolute http or https URL")]
    Scheme,
    /// The user or password is empty, ambiguous or encoded incorrectly.
    #[error("has a user or password that is ambiguous: percent-encode it")]
    Credentials,
    /// The host is neither a canonical address nor a plain DNS name.
    #[error("must have a DNS name or an IP address in canonical form as its host")]
    Host,
    /// The port is not from 1 to 65535.
    #[error("must have a port from 1 to 65535")]
    Port,
    /// Parsers read different destinations from the text.
    #[error("is ambiguous")]
    Ambiguous,
    /// The address is neither public nor permitted.
    #[error("must not have a {0} address as the host")]
    Address(AddressClass),
}

impl OutboundUrl {
    /// Checks a URL, and an address in it, without resolving names.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn parse(text: &str, policy: &Policy) -> Result<Self, UrlRefusal> {
        let parts = Parts::parse(text)?;
        if let Host::Address(address) = parts.host {
            policy.check(&parts.host, address, parts.port).map_err(UrlRefusal::Address)?;
        }
        if !parts.is_confirmed(text) {
            return Err(UrlRefusal::Ambiguous);
        }
        Ok(Self { text: text.to_owned(), shown: mask(text), parts })
    }

    /// Returns the URL as written, with its password. Only for encrypted storage.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns the URL with `***` for its password, or for a user without one, usually a token.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.parts.host
    }

    /// The port, or the scheme's default.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.parts.port
    }

    /// Returns the URL without user and password, then these two, decoded; empty if there are none.
    ///
    /// # Errors
    /// [`UrlRefusal::Credentials`] if one of them is not UTF-8.
    pub fn split_credentials(&self) -> Result<(String, String, String), UrlRefusal> {
        let Some(Credentials { user, password }) = self.credentials() else {
            return Ok((self.text.clone(), String::new(), String::new()));
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| UrlRefusal::Credentials);
        let start = self.text.find("://").map_or(0, |colon| colon + 3);
        let end = self.text[start..].find('@').map_or(start, |at| start + at + 1);
        Ok((format!("{}{}", &self.text[..start], &self.text[end..]), text(user)?, text(password)?))
    }

    pub(crate) fn target(&self) -> &PathAndQuery {
        &self.parts.target
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.parts.credentials.as_ref()
    }
}

impl fmt::Debug for OutboundUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "OutboundUrl({:?})", self.shown)
    }
}

impl fmt::Display for OutboundUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl Parts {
    fn parse(text: &str) -> Result<Self, UrlRefusal> {
        if text.is_empty() {
            return Err(UrlRefusal::Empty);
        }
        if text.len() > MAX_URL_BYTES {
            return Err(UrlRefusal::TooLong);
        }
        if !text.bytes().all(is_url_byte) {
            return Err(UrlRefusal::Character);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlRefusal::Scheme)?;
        let scheme =
            [Scheme::Http, Scheme::Https].into_iter().find(|known| scheme.eq_ignore_ascii_case(known.as_str()));
        let scheme = scheme.ok_or(UrlRefusal::Scheme)?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // Parsers that end the authority only at a slash take the text before the `@` as the user.
        if !rest.starts_with('/') && rest.contains('@') {
            return Err(UrlRefusal::Ambiguous);
        }
        let (credentials, host_port) = match authority.split_once('@') {
            Some((userinfo, host_port)) => (Some(Credentials::parse(userinfo)?), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        let host = Host::parse(host).ok_or(UrlRefusal::Host)?;
        let port = port.unwrap_or(scheme.default_port());
        Ok(Self { scheme, credentials, host, port, target: parse_target(rest)? })
    }

    /// Returns whether a browser's parser reads the same destination.
    fn is_confirmed(&self, text: &str) -> bool {
        let Ok(url) = url::Url::parse(text) else { return false };
        let decode = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let credentials =
            Credentials { user: decode(url.username()), password: decode(url.password().unwrap_or_default()) };
        let own = self.credentials.clone().unwrap_or(Credentials { user: Vec::new(), password: Vec::new() });
        let is_same_host = match (&self.host, url.host()) {
            (Host::Name(name), Some(url::Host::Domain(other))) => name == other,
            (Host::Address(address), Some(url::Host::Ipv4(other))) => *address == other,
            (Host::Address(address), Some(url::Host::Ipv6(other))) => *address == other,
            _ => false,
        };
        is_same_host
            && url.scheme() == self.scheme.as_str()
            && url.port_or_known_default() == Some(self.port)
            && credentials == own
    }
}

impl Credentials {
    fn parse(userinfo: &str) -> Result<Self, UrlRefusal> {
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let credentials = Self { user: decode(user)?, password: decode(password)? };
        let is_empty = credentials.user.is_empty() && credentials.password.is_empty();
        // In Basic authentication, the first colon ends the user.
        if is_empty || credentials.user.contains(&b':') {
            return Err(UrlRefusal::Credentials);
        }
        Ok(credentials)
    }
}

/// Decodes a user or a password. Rejects control characters, which Basic authentication forbids.
fn decode(text: &str) -> Result<Vec<u8>, UrlRefusal> {
    let is_encoded = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let decoded: Vec<u8> = percent_decode_str(text).collect();
    if !text.split('%').skip(1).all(is_encoded) || decoded.iter().any(u8::is_ascii_control) {
        return Err(UrlRefusal::Credentials);
    }
    Ok(decoded)
}

/// Splits the port from a host, which may be an IPv6 address in brackets.
fn split_port(host_port: &str) -> Result<(&str, Option<u16>), UrlRefusal> {
    let after_bracket = host_port.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = host_port[after_bracket..].find(':') else { return Ok((host_port, None)) };
    let (host, port) = (&host_port[..after_bracket + colon], &host_port[after_bracket + colon + 1..]);
    if port.starts_with('0') || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlRefusal::Port);
    }
    Ok((host, Some(port.parse().map_err(|_| UrlRefusal::Port)?)))
}

/// Builds the request target from the text after the authority.
fn parse_target(rest: &str) -> Result<PathAndQuery, UrlRefusal> {
    let target = rest.split('#').next().unwrap_or_default();
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    target.parse().map_err(|_| UrlRefusal::Character)
}

/// Replaces the secret in a URL's user and password with [`MASK`].
fn mask(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((userinfo, _)) = rest[..end].split_once('@') else { return text.to_owned() };
    let shown = match userinfo.split_once(':') {
        Some((user, password)) if !password.is_empty() => format!("{user}:{MASK}"),
        _ => MASK.to_owned(),
    };
    format!("{scheme}://{shown}{}", &rest[userinfo.len()..])
}

/// Returns whether RFC 3986 allows the byte: reserved, unreserved, or the percent sign.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}
