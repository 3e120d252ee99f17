//! Classes of IP addresses. An address without a class is public: assigned to hosts of the Internet, and reached there only.
//!
//! Sources: the special-purpose registries of IANA (RFC 6890 and its updates), RFC 4291, RFC 6052, RFC 5214.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason for which an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// `0.0.0.0/8`, `::`: on many systems the machine itself.
    Unspecified,
    /// The machine itself.
    Loopback,
    /// Private networks, and unique-local ones of IPv6.
    Private,
    /// The link, where clouds serve their metadata.
    LinkLocal,
    /// Site-local addresses of IPv6, deprecated.
    SiteLocal,
    /// Carrier-grade NAT.
    Shared,
    /// Services of a cloud for the machines in it, on an address that is public otherwise.
    CloudService,
    /// Examples in documents.
    Documentation,
    /// Benchmarks of networks.
    Benchmark,
    /// Discarded by routers.
    Discard,
    /// Groups of hosts.
    Multicast,
    /// All hosts of the link.
    Broadcast,
    /// Not assigned to hosts.
    Reserved,
    /// IPv6 addresses that stand for an IPv4 address: mapped, compatible, translated (NAT64), 6to4, Teredo, ISATAP.
    EmbedsIpv4,
}

impl AddressClass {
    /// Returns the name of the class, for messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
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
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Networks of IPv4 that are not public. The first match counts.
const IPV4_CLASSES: &[(Ipv4Addr, u8, AddressClass)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, AddressClass::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, AddressClass::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, AddressClass::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, AddressClass::Loopback),
    // Agents of virtual machines in Azure.
    (Ipv4Addr::new(168, 63, 129, 16), 32, AddressClass::CloudService),
    (Ipv4Addr::new(169, 254, 0, 0), 16, AddressClass::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, AddressClass::Private),
    // Protocol assignments; Oracle's cloud serves metadata here.
    (Ipv4Addr::new(192, 0, 0, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, AddressClass::Documentation),
    // Relays of 6to4, deprecated.
    (Ipv4Addr::new(192, 88, 99, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, AddressClass::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, AddressClass::Benchmark),
    (Ipv4Addr::new(198, 51, 100, 0), 24, AddressClass::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, AddressClass::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, AddressClass::Multicast),
    (Ipv4Addr::BROADCAST, 32, AddressClass::Broadcast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, AddressClass::Reserved),
];

/// Networks of IPv6 that are not public. The first match counts.
const IPV6_CLASSES: &[(Ipv6Addr, u8, AddressClass)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, AddressClass::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, AddressClass::Loopback),
    // Compatible, mapped, and mapped as translators of RFC 2765 wrote it.
    (Ipv6Addr::UNSPECIFIED, 96, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, AddressClass::EmbedsIpv4),
    // NAT64, and its prefix for networks of one's own.
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 63, AddressClass::Discard),
    // Teredo.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, AddressClass::Benchmark),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, AddressClass::Documentation),
    // Protocol assignments.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, AddressClass::Reserved),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, AddressClass::EmbedsIpv4),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, AddressClass::Documentation),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, AddressClass::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, AddressClass::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, AddressClass::SiteLocal),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, AddressClass::Multicast),
];

/// Global unicast: the only part of IPv6 whose addresses are assigned to hosts of the Internet.
const IPV6_GLOBAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Returns the networks whose addresses are not public, for firewalls beside the process: an address and the length of the prefix. Of
/// IPv6, whatever is not global unicast (`2000::/3`) is not public either.
pub fn special_networks() -> impl Iterator<Item = (IpAddr, u8)> {
    let ipv4 = IPV4_CLASSES.iter().map(|(network, prefix, _)| (IpAddr::V4(*network), *prefix));
    let ipv6 = IPV6_CLASSES.iter().map(|(network, prefix, _)| (IpAddr::V6(*network), *prefix));
    ipv4.chain(ipv6)
}

/// Returns the class of an address; `None` if it is public.
pub(crate) fn classify(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(address) => IPV4_CLASSES
            .iter()
            .find(|(network, prefix, _)| contains_ipv4(*network, *prefix, address))
            .map(|(_, _, class)| *class),
        IpAddr::V6(address) => {
            let is_in = |network: Ipv6Addr, prefix| contains_ipv6(network, prefix, address);
            let listed = IPV6_CLASSES.iter().find(|(network, prefix, _)| is_in(*network, *prefix));
            let listed = listed.map(|(_, _, class)| *class);
            let (global, prefix) = IPV6_GLOBAL;
            let rest = if !is_in(global, prefix) {
                Some(AddressClass::Reserved)
            } else {
                is_isatap(address).then_some(AddressClass::EmbedsIpv4)
            };
            listed.or(rest)
        }
    }
}

/// Returns the IPv4 address that an IPv6 address stands for, where its place is fixed.
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
        // Networks choose where their own prefix has the address.
        [0x64, 0xff9b, 1, ..] => None,
        _ => Some(at(12)),
    }
}

/// Returns whether the interface identifier is one of ISATAP, which ends in an IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
}

/// Returns whether `network`, of `prefix` bits, contains `address`.
pub(crate) fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => contains_ipv4(network, prefix, address),
        (IpAddr::V6(network), IpAddr::V6(address)) => contains_ipv6(network, prefix, address),
        _ => false,
    }
}

fn contains_ipv4(network: Ipv4Addr, prefix: u8, address: Ipv4Addr) -> bool {
    let mask = u32::MAX.checked_shl(u32::BITS - u32::from(prefix)).unwrap_or(0);
    (network.to_bits() ^ address.to_bits()) & mask == 0
}

fn contains_ipv6(network: Ipv6Addr, prefix: u8, address: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(u128::BITS - u32::from(prefix)).unwrap_or(0);
    (network.to_bits() ^ address.to_bits()) & mask == 0
}
