//! The proxies that are trusted to name their clients.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

/// In the text form of [`TrustedProxies`]: local processes that connect over Unix sockets.
const UNIX: &str = "unix";

/// Networks of trusted proxies. Empty by default: a client has the address of its connection. Cheap
/// to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    includes_unix: bool,
}

/// The text is not a [`TrustedProxies`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix`")]
pub struct BadProxy(String);

impl FromStr for TrustedProxies {
    type Err = BadProxy;

    /// Parses a comma-separated list.
    fn from_str(text: &str) -> Result<Self, BadProxy> {
        let (mut networks, mut includes_unix) = (Vec::new(), false);
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if entry == UNIX {
                includes_unix = true;
            } else {
                networks.push(network(entry).ok_or_else(|| BadProxy(entry.to_owned()))?);
            }
        }
        Ok(Self { networks: networks.into(), includes_unix })
    }
}

/// Parses an address or network. Rejects IPv4-mapped IPv6, because addresses are compared in their
/// canonical form, IPv4.
fn network(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    let is_mapped = matches!(network.addr(), IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(network)
}

impl TrustedProxies {
    /// Whether no proxy is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.includes_unix
    }

    /// Whether `address` is a trusted proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Whether the peer of a connection is a trusted proxy; `None` is a Unix socket.
    #[must_use]
    pub fn contains_peer(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.includes_unix, |address| self.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(list: &str, address: &str) -> bool {
        list.parse::<TrustedProxies>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn addresses_and_networks_are_trusted_in_every_form_of_them() {
        for (list, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.0/24, 2001:db8::/32", "2001:db8:1::5"),
            (" ::1 ,", "::1"),
            ("0.0.0.0/0", "203.0.113.9"),
        ] {
            assert!(trusts(list, address), "{list} {address}");
        }
        for (list, address) in [
            ("", "127.0.0.1"),
            ("unix", "127.0.0.1"),
            ("10.0.0.0/8", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "2001:db8::1"),
            ("::/0", "192.0.2.1"),
        ] {
            assert!(!trusts(list, address), "{list} {address}");
        }
    }

    #[test]
    fn unix_sockets_are_trusted_only_by_name() {
        for (list, expected) in [("", false), ("0.0.0.0/0,::/0", false), ("unix", true), ("10.0.0.1,unix", true)] {
            let proxies: TrustedProxies = list.parse().unwrap();
            assert_eq!(proxies.contains_peer(None), expected, "{list}");
            assert_eq!(proxies.is_empty(), list.is_empty());
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in
            ["localhost", "10.0.0.0/33", "10.0.0/8", "10.0.0.1:80", "::ffff:10.0.0.0/104", "*", "10.0.0.1 10.0.0.2"]
        {
            assert_eq!(wrong.parse::<TrustedProxies>(), Err(BadProxy(wrong.to_owned())));
        }
    }
}
