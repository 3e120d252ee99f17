//! Destinations that the operator permits although they are not public: `FERRITE_OUTBOUND_ALLOW`.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::host::Host;

const MAX_ENTRIES: usize = 1024;

/// Networks and host names, each for one port or all. Empty by default.
///
/// Entries are separated by commas: networks (`10.0.0.0/8`, `fd00::/8`), addresses (`127.0.0.1`,
/// `::1`) and host names (`hooks.internal`, without subdomains), each with an optional port
/// (`10.0.0.0/8:8080`, `[fd00::/8]:8080`, `[::1]:8080`, `hooks.internal:8080`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    destination: Destination,
    /// `None` for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    Network(IpNet),
    Name(String),
}

/// An error in the text of an [`AllowList`], with the entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowListError {
    /// Two commas in a row, or one at an end.
    #[error("an entry is empty")]
    Empty,
    /// Too many entries.
    #[error("more than {MAX_ENTRIES} entries")]
    TooMany,
    /// Neither a network, nor an address, nor a host name.
    #[error("`{0}` is not a network (`10.0.0.0/8`), address or host name, with an optional `:port`")]
    Destination(String),
    /// The prefix length is not a number, or exceeds the address length.
    #[error("`{0}`: the prefix length must be from 0 to {1}")]
    Prefix(String, u8),
    /// The address has bits after its prefix.
    #[error("`{0}`: the address has bits set after the prefix; use `{1}`")]
    HostBits(String, IpNet),
    /// The port is not a number from 1 to 65535.
    #[error("`{0}`: the port must be from 1 to 65535")]
    Port(String),
}

impl AllowList {
    /// Returns whether an entry lists this host name for this port.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        self.at(port).any(|destination| matches!(destination, Destination::Name(name) if name == host))
    }

    /// Returns whether a network in the list contains this address, for this port.
    pub(crate) fn contains(&self, address: IpAddr, port: u16) -> bool {
        self.at(port).any(|destination| match destination {
            Destination::Network(network) => network.contains(&address),
            Destination::Name(_) => false,
        })
    }

    fn at(&self, port: u16) -> impl Iterator<Item = &Destination> {
        self.0.iter().filter(move |entry| entry.port.is_none_or(|own| own == port)).map(|entry| &entry.destination)
    }
}

impl FromStr for AllowList {
    type Err = AllowListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.split(',').count() > MAX_ENTRIES {
            return Err(AllowListError::TooMany);
        }
        text.split(',').map(|entry| parse_entry(entry.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn parse_entry(text: &str) -> Result<Entry, AllowListError> {
    if text.is_empty() {
        return Err(AllowListError::Empty);
    }
    let (destination, port) = split_port(text)?;
    let port = port.map(|port| parse_port(text, port)).transpose()?;
    let destination = match destination.split_once('/') {
        Some((address, prefix)) => parse_network(text, address, prefix)?,
        None => parse_host(text, destination)?,
    };
    Ok(Entry { destination, port })
}

fn split_port(text: &str) -> Result<(&str, Option<&str>), AllowListError> {
    if let Some(inner) = text.strip_prefix('[') {
        let fault = || AllowListError::Destination(text.to_owned());
        let (inner, rest) = inner.split_once(']').ok_or_else(fault)?;
        let is_ipv6 = inner.contains(':');
        return match rest.strip_prefix(':') {
            Some(port) if is_ipv6 => Ok((inner, Some(port))),
            None if is_ipv6 && rest.is_empty() => Ok((inner, None)),
            _ => Err(fault()),
        };
    }
    let end = text.find('/').unwrap_or(0);
    let is_ipv6 = text.parse::<Ipv6Addr>().is_ok();
    match text[end..].find(':') {
        Some(colon) if !is_ipv6 => Ok((&text[..end + colon], Some(&text[end + colon + 1..]))),
        _ => Ok((text, None)),
    }
}

fn parse_port(entry: &str, port: &str) -> Result<u16, AllowListError> {
    let fault = || AllowListError::Port(entry.to_owned());
    parse_number::<u16>(port).filter(|port| *port > 0).ok_or_else(fault)
}

fn parse_network(entry: &str, address: &str, prefix: &str) -> Result<Destination, AllowListError> {
    let address: IpAddr = address.parse().map_err(|_| AllowListError::Destination(entry.to_owned()))?;
    let network = parse_number::<u8>(prefix)
        .and_then(|prefix| IpNet::new(address, prefix).ok())
        .ok_or_else(|| AllowListError::Prefix(entry.to_owned(), IpNet::from(address).max_prefix_len()))?;
    if network.trunc() != network {
        return Err(AllowListError::HostBits(entry.to_owned(), network.trunc()));
    }
    Ok(Destination::Network(network))
}

fn parse_host(entry: &str, host: &str) -> Result<Destination, AllowListError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Destination::Network(address.into()));
    }
    match Host::parse(host) {
        Some(Host::Name(name)) => Ok(Destination::Name(name)),
        _ => Err(AllowListError::Destination(entry.to_owned())),
    }
}

/// Parses digits only. `FromStr` would accept a sign.
fn parse_number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> AllowList {
        text.parse().expect("the list is valid")
    }

    fn contains(list: &AllowList, address: &str, port: u16) -> bool {
        list.contains(address.parse().expect("it is an address"), port)
    }

    #[test]
    fn networks_addresses_and_names_are_listed_with_and_without_a_port() {
        let all = list(" 10.0.0.0/8 , fd00::/8,127.0.0.1,::1 ");
        for address in ["10.255.0.1", "fd12::1", "127.0.0.1", "::1"] {
            assert!(contains(&all, address, 1) && contains(&all, address, 65535), "{address}");
        }
        for address in ["11.0.0.1", "fe00::1", "127.0.0.2", "::2", "::ffff:10.0.0.1"] {
            assert!(!contains(&all, address, 80), "{address}");
        }
        for text in ["10.0.0.0/8:8080", "10.0.0.1:8080"] {
            assert!(contains(&list(text), "10.0.0.1", 8080) && !contains(&list(text), "10.0.0.1", 80), "{text}");
        }
        for text in ["[fd00::/8]:8080", "fd00::/8:8080", "[fd00::1]:8080"] {
            assert!(contains(&list(text), "fd00::1", 8080) && !contains(&list(text), "fd00::1", 80), "{text}");
        }
        assert!(contains(&list("[fd00::1]"), "fd00::1", 80) && contains(&list("[fd00::/8]"), "fd00::1", 80));
        assert!(contains(&list("0.0.0.0/0,::/0"), "10.0.0.1", 80) && contains(&list("0.0.0.0/0,::/0"), "fe80::1", 80));
        let names = list("Hooks.Internal,ci:8080");
        assert!(names.names("hooks.internal", 1) && names.names("ci", 8080) && !names.names("ci", 80));
        assert!(!names.names("a.hooks.internal", 80) && !names.names("internal", 80));
        assert_eq!(list(""), AllowList::default());
        assert_eq!(list("  "), AllowList::default());
    }

    #[test]
    fn a_fault_in_the_list_is_named_with_its_entry() {
        for (text, message) in [
            ("10.0.0.0/8,", "an entry is empty"),
            ("10.0.0.0/33", "`10.0.0.0/33`: the prefix length must be from 0 to 32"),
            ("10.0.0.0/+8", "`10.0.0.0/+8`: the prefix length must be from 0 to 32"),
            ("fd00::/129", "`fd00::/129`: the prefix length must be from 0 to 128"),
            ("10.1.2.3/8", "`10.1.2.3/8`: the address has bits set after the prefix; use `10.0.0.0/8`"),
            ("fd00::1/8", "`fd00::1/8`: the address has bits set after the prefix; use `fd00::/8`"),
            ("ci:0", "`ci:0`: the port must be from 1 to 65535"),
            ("ci:65536", "`ci:65536`: the port must be from 1 to 65535"),
            ("ci:", "`ci:`: the port must be from 1 to 65535"),
            ("10.0.0.0/8:x", "`10.0.0.0/8:x`: the port must be from 1 to 65535"),
        ] {
            assert_eq!(text.parse::<AllowList>().unwrap_err().to_string(), message);
        }
        for text in [
            "*",
            "*.internal",
            "http://ci/",
            "ci/8",
            "0177.0.0.1",
            "10.0.0",
            "[ci]:80",
            "[::1",
            "[::1]80",
            "a b",
            "ci.",
        ] {
            let error = text.parse::<AllowList>().unwrap_err().to_string();
            assert!(error.contains("is not a network") || error.contains("the port must be"), "{text}: {error}");
        }
        assert_eq!(vec!["ci"; 1025].join(",").parse::<AllowList>(), Err(AllowListError::TooMany));
    }
}
