//! Hosts of URLs: canonical IP addresses and plain DNS names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// A host that all parsers read the same way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name in lower case, without trailing dot.
    Name(String),
    /// An address written in canonical form.
    Address(IpAddr),
}

impl Host {
    /// Parses a host as written in URLs, with IPv6 addresses in brackets. `None` if programs could
    /// read it differently: octal, hexadecimal or short IPv4 addresses, IPv6 addresses with a zone
    /// or not in canonical form, percent signs, non-ASCII characters, empty labels, a trailing dot.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']')?;
            let address: Ipv6Addr = inner.parse().ok()?;
            return is_canonical(address, inner).then_some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        is_plain_name(text).then(|| Self::Name(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(out, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
        }
    }
}

/// Returns whether `text` is in RFC 5952 form. A mapped IPv4 address has two: with a dotted end or
/// without.
fn is_canonical(address: Ipv6Addr, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let [.., high, low] = address.segments();
    address.to_string() == text || address.to_ipv4_mapped().is_some() && text == format!("::ffff:{high:x}:{low:x}")
}

fn is_plain_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_NAME_BYTES && text.split('.').all(is_label) && !is_number(last)
}

fn is_label(label: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(is_name_byte)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns whether a parser may read a name with this last label as an IPv4 address, as browsers
/// and `inet_aton` do.
fn is_number(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_addresses_and_plain_names_are_hosts() {
        for text in
            ["example.com", "hook_1.example", "receiver", "1and1.com", "xn--bcher-kva.example", "9f86d0", "a.b-c.d"]
        {
            assert_eq!(Host::parse(text), Some(Host::Name(text.to_owned())), "{text}");
        }
        assert_eq!(Host::parse("Example.COM"), Some(Host::Name("example.com".to_owned())));
        for text in ["127.0.0.1", "[::1]", "[2001:db8::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::a00:1]"]
        {
            assert!(matches!(Host::parse(text), Some(Host::Address(_))), "{text}");
        }
        assert!(Host::parse(&format!("{}.example", "a".repeat(63))).is_some());
    }

    #[test]
    fn hosts_that_parsers_read_differently_are_refused() {
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "127.0.0.1.",
            "0177.0.0.1",
            "127.0.0.01",
            "0x7f.0.0.1",
            "0x7f000001",
            "0x",
            "a.0x",
            "0X7F.1",
            "2130706433",
            "017700000001",
            "127.1",
            "127.0.1",
            "1.2.3.4.5",
            "1.2.3.256",
            "foo.1",
            "00000000.1",
            "[::1",
            "::1",
            "[]",
            "[::1%25eth0]",
            "[::1%eth0]",
            "[0:0:0:0:0:0:0:1]",
            "[::01]",
            "[::0:1]",
            "[127.0.0.1]",
            "[v1.a]",
            "[0::ffff:7f00:1]",
            "[::ffff:127.0.0.01]",
            "[1:2:3:4:5:6:7.8]",
            "-a.example",
            "a-.example",
            "a b",
            "a%2eb",
            "%6cocalhost",
            "a,b",
            "a\0b",
            "b\u{fc}cher.example",
            "\u{ff11}27.0.0.1",
            "127\u{3002}0\u{3002}0\u{3002}1",
            "\u{2460}.example",
            "a/b",
            "a\\b",
            "a@b",
            "a:b",
            "*",
            "a*b",
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
        }
        assert_eq!(Host::parse(&format!("{}.example", "a".repeat(64))), None);
        assert_eq!(Host::parse(&"a.".repeat(127)[..253]).map(|_| ()), Some(()));
        assert_eq!(Host::parse(&"a.".repeat(128)[..255]), None);
    }
}
