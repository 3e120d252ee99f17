//! Classes of IP addresses. An address without a class is public: assigned to Internet hosts and
//! reachable only there.
//!
//! Sources: IANA special-purpose registries (RFC 6890 and updates), RFC 4291, RFC 6052, RFC 5214.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// `0.0.0.0/8`, `::`: the machine itself on many systems.
    Unspecified,
    /// The machine itself.
    Loopback,
    /// Private networks, and unique-local ones of IPv6.
    Private,
    /// Link-local, where clouds serve metadata.
    LinkLocal,
    /// Site-local IPv6, deprecated.
    SiteLocal,
    /// Carrier-grade NAT.
    Shared,
    /// A cloud service for its own machines, on an otherwise public address.
    CloudService,
    /// Examples in documentation.
    Documentation,
    /// Network benchmarks.
    Benchmark,
    /// Discarded by routers.
    Discard,
    /// Groups of hosts.
    Multicast,
    /// All hosts of the link.
    Broadcast,
    /// Not assigned to hosts.
    Reserved,
    /// An IPv6 address that embeds an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo, ISATAP.
    EmbedsIpv4,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::SiteLocal => "site-local",
            Self::Shared => "shared",
            Self::CloudService => "cloud service",
            Self::Documentation => "documentation",
            Self::Benchmark => "benchmark",
            Self::Discard => "discard",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
            Self::EmbedsIpv4 => "embedded IPv4",
        })
    }
}

/// Networks that are not public. The first match wins.
const CLASSES: &[(&str, AddressClass)] = &[
    ("0.0.0.0/8", AddressClass::Unspecified),
    ("10.0.0.0/8", AddressClass::Private),
    ("100.64.0.0/10", AddressClass::Shared),
    ("127.0.0.0/8", AddressClass::Loopback),
    // Azure's virtual machine agents.
    ("168.63.129.16/32", AddressClass::CloudService),
    ("169.254.0.0/16", AddressClass::LinkLocal),
    ("172.16.0.0/12", AddressClass::Private),
    // Protocol assignments; Oracle Cloud serves metadata here.
    ("192.0.0.0/24", AddressClass::Reserved),
    ("192.0.2.0/24", AddressClass::Documentation),
    // 6to4 relays, deprecated.
    ("192.88.99.0/24", AddressClass::Reserved),
    ("192.168.0.0/16", AddressClass::Private),
    ("198.18.0.0/15", AddressClass::Benchmark),
    ("198.51.100.0/24", AddressClass::Documentation),
    ("203.0.113.0/24", AddressClass::Documentation),
    ("224.0.0.0/4", AddressClass::Multicast),
    ("255.255.255.255/32", AddressClass::Broadcast),
    ("240.0.0.0/4", AddressClass::Reserved),
    ("::/128", AddressClass::Unspecified),
    ("::1/128", AddressClass::Loopback),
    // Compatible, mapped, and translated as in RFC 2765.
    ("::/96", AddressClass::EmbedsIpv4),
    ("::ffff:0:0/96", AddressClass::EmbedsIpv4),
    ("::ffff:0:0:0/96", AddressClass::EmbedsIpv4),
    // NAT64: the well-known prefix, and the one for local use.
    ("64:ff9b::/96", AddressClass::EmbedsIpv4),
    ("64:ff9b:1::/48", AddressClass::EmbedsIpv4),
    ("100::/63", AddressClass::Discard),
    // Teredo.
    ("2001::/32", AddressClass::EmbedsIpv4),
    ("2001:2::/48", AddressClass::Benchmark),
    ("2001:db8::/32", AddressClass::Documentation),
    // Protocol assignments.
    ("2001::/23", AddressClass::Reserved),
    // 6to4.
    ("2002::/16", AddressClass::EmbedsIpv4),
    ("3fff::/20", AddressClass::Documentation),
    ("fc00::/7", AddressClass::Private),
    ("fe80::/10", AddressClass::LinkLocal),
    ("fec0::/10", AddressClass::SiteLocal),
    ("ff00::/8", AddressClass::Multicast),
];

static NETWORKS: LazyLock<Vec<(IpNet, AddressClass)>> = LazyLock::new(|| {
    CLASSES.iter().map(|(network, class)| (network.parse().expect("the table has networks"), *class)).collect()
});

/// Returns the networks that are not public, for firewalls. In IPv6, nothing outside global unicast
/// (`2000::/3`) is public either.
pub fn special_networks() -> impl Iterator<Item = IpNet> {
    NETWORKS.iter().map(|(network, _)| *network)
}

/// Returns the class of an address; `None` if it is public.
pub(crate) fn classify(address: IpAddr) -> Option<AddressClass> {
    let listed = NETWORKS.iter().find(|(network, _)| network.contains(&address));
    match (listed, address) {
        (Some((_, class)), _) => Some(*class),
        (None, IpAddr::V4(_)) => None,
        (None, IpAddr::V6(address)) if !is_global_unicast(address) => Some(AddressClass::Reserved),
        (None, IpAddr::V6(address)) => is_isatap(address).then_some(AddressClass::EmbedsIpv4),
    }
}

/// Returns the IPv4 address embedded in an IPv6 address, if its position is fixed.
pub(crate) fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if classify(address.into()) != Some(AddressClass::EmbedsIpv4) {
        return None;
    }
    let at = |first: usize| {
        let bytes = address.octets();
        Ipv4Addr::new(bytes[first], bytes[first + 1], bytes[first + 2], bytes[first + 3])
    };
    match address.segments() {
        [0x2002, ..] => Some(at(2)),
        // Teredo inverts the bits of the client's address.
        [0x2001, 0, ..] => Some(Ipv4Addr::from_bits(!at(12).to_bits())),
        // Each network chooses where its own prefix puts the address.
        [0x64, 0xff9b, 1, ..] => None,
        _ => Some(at(12)),
    }
}

/// Returns whether the address is in `2000::/3`, the only part of IPv6 assigned to Internet hosts.
fn is_global_unicast(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x2000..=0x3fff, ..])
}

/// Returns whether the interface identifier is ISATAP, which ends in an IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
}
