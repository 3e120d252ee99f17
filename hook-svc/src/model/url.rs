//! URLs of webhooks.
//!
//! Not here: addresses, which are checked when a delivery dials them.

use ferrite_proto::error::FieldViolation;
use url::{Host, Url};

const MAX_URL_BYTES: usize = 2048;

/// The target of deliveries: an absolute http or https URL, as the client wrote it.
///
/// Stricter than browsers, which repair URLs (white space, backslashes, missing slashes): two programs that repair differently
/// would deliver to different hosts. The address that is dialled is checked at delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookUrl(String);

impl HookUrl {
    /// Checks a URL.
    ///
    /// # Errors
    /// The violation of the first broken rule.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        let refuse = |code, message| Err(FieldViolation::new("config.url", code, message));
        if text.is_empty() {
            return refuse("required", "is required");
        }
        if text.len() > MAX_URL_BYTES {
            return refuse("too_long", "must have at most 2048 bytes");
        }
        if !is_absolute_http(text) {
            return refuse("invalid", "must be an absolute http or https URL");
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_absolute_http(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return false;
    }
    if !text.bytes().all(is_url_byte) || rest.starts_with(['/', '?', '#']) {
        return false;
    }
    let Ok(url) = Url::parse(text) else { return false };
    let written = host_as_written(rest);
    let is_plain = match url.host() {
        Some(Host::Domain(name)) => name == written && name.bytes().all(is_name_byte),
        Some(Host::Ipv4(address)) => address.to_string() == written,
        Some(Host::Ipv6(address)) => format!("[{address}]") == written,
        None => false,
    };
    is_plain && url.port() != Some(0)
}

/// Returns the host in the text after `://`, in lower case but otherwise unchanged. The parser normalizes other forms of an IPv4
/// address (octal, hexadecimal, one number) and decodes percent signs; a program that does otherwise would reach another host.
fn host_as_written(rest: &str) -> String {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority.split_once('@').map_or(authority, |(_, host_port)| host_port);
    let host = match host_port.rfind(':') {
        Some(colon) if !host_port.ends_with(']') => &host_port[..colon],
        _ => host_port,
    };
    host.to_ascii_lowercase()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// Returns whether a byte is one of the characters of RFC 3986: reserved, unreserved, or the percent sign.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn absolute_http_urls_are_kept_as_they_were_sent() {
        for url in [
            "http://example.com",
            "https://example.com/a/b?c=d#e",
            "HTTP://Example.COM:8080/Path",
            "http://127.0.0.1:3000/hook",
            "http://[2001:db8::1]/",
            "https://user:word@example.com/",
            "http://a/%20b",
            "http://a.example:80/x@y:z",
            "http://hook_1.example./",
        ] {
            assert_eq!(HookUrl::parse(url).unwrap().as_str(), url);
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for url in [
            "nope",
            "/path",
            "example.com/hook",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http:",
            "http://",
            "http:///path",
            "http:example.com",
            "http://?q",
            "http://#f",
            "http://:80/",
            "http://user@/",
            " http://example.com",
            "http://example.com ",
            "http://exam ple.com",
            "http://example.com/\n",
            "http://example.com\\@evil.example",
            "http://example.com:0/",
            "http://example.com:65536/",
            "http://example.com:x/",
            "http://[::1/",
            "http://1.2.3.4.5/",
            "http://0177.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:7f00:1%25eth0]/",
            "http://%6cocalhost/",
            "http://a@b@c.example/",
            "http://a,b/",
            "http://",
            "http://a\0b/",
            "http://b\u{fc}cher.example/",
        ] {
            let violation = HookUrl::parse(url).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("config.url", "invalid"), "{url:?}");
        }
        assert_eq!(HookUrl::parse("").unwrap_err().code, "required");
        assert_eq!(HookUrl::parse(&format!("http://example.com/{}", "a".repeat(2048))).unwrap_err().code, "too_long");
    }

    proptest! {
        #[test]
        fn every_accepted_url_is_http_with_a_host_and_plain_characters(text in "(http|https|HTTP|ftp|)(://|:/|:)?.{0,30}") {
            if let Ok(url) = HookUrl::parse(&text) {
                prop_assert_eq!(url.as_str(), &text);
                let parsed = Url::parse(&text).unwrap();
                prop_assert!(matches!(parsed.scheme(), "http" | "https"));
                prop_assert!(parsed.has_host());
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'));
            }
        }
    }
}
