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

/// Networks that are not public, by their first addresses. The first match counts.
const CLASSES: &[(IpAddr, u8, AddressClass)] = &[
    (ipv4(0, 0, 0, 0), 8, AddressClass::Unspecified),
    (ipv4(10, 0, 0, 0), 8, AddressClass::Private),
    (ipv4(100, 64, 0, 0), 10, AddressClass::Shared),
    (ipv4(127, 0, 0, 0), 8, AddressClass::Loopback),
    // Agents of virtual machines in Azure.
    (ipv4(168, 63, 129, 16), 32, AddressClass::CloudService),
    (ipv4(169, 254, 0, 0), 16, AddressClass::LinkLocal),
    (ipv4(172, 16, 0, 0), 12, AddressClass::Private),
    // Protocol assignments; Oracle's cloud serves metadata here.
    (ipv4(192, 0, 0, 0), 24, AddressClass::Reserved),
    (ipv4(192, 0, 2, 0), 24, AddressClass::Documentation),
    // Relays of 6to4, deprecated.
    (ipv4(192, 88, 99, 0), 24, AddressClass::Reserved),
    (ipv4(192, 168, 0, 0), 16, AddressClass::Private),
    (ipv4(198, 18, 0, 0), 15, AddressClass::Benchmark),
    (ipv4(198, 51, 100, 0), 24, AddressClass::Documentation),
    (ipv4(203, 0, 113, 0), 24, AddressClass::Documentation),
    (ipv4(224, 0, 0, 0), 4, AddressClass::Multicast),
    (IpAddr::V4(Ipv4Addr::BROADCAST), 32, AddressClass::Broadcast),
    (ipv4(240, 0, 0, 0), 4, AddressClass::Reserved),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128, AddressClass::Unspecified),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128, AddressClass::Loopback),
    // Compatible, mapped, and mapped as translators of RFC 2765 wrote it.
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 96, AddressClass::EmbedsIpv4),
    (ipv6([0, 0, 0, 0, 0, 0xffff, 0, 0]), 96, AddressClass::EmbedsIpv4),
    (ipv6([0, 0, 0, 0, 0xffff, 0, 0, 0]), 96, AddressClass::EmbedsIpv4),
    // NAT64, and its prefix for networks of one's own.
    (ipv6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0]), 96, AddressClass::EmbedsIpv4),
    (ipv6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]), 48, AddressClass::EmbedsIpv4),
    (ipv6([0x100, 0, 0, 0, 0, 0, 0, 0]), 63, AddressClass::Discard),
    // Teredo.
    (ipv6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 32, AddressClass::EmbedsIpv4),
    (ipv6([0x2001, 2, 0, 0, 0, 0, 0, 0]), 48, AddressClass::Benchmark),
    (ipv6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 32, AddressClass::Documentation),
    // Protocol assignments.
    (ipv6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 23, AddressClass::Reserved),
    // 6to4.
    (ipv6([0x2002, 0, 0, 0, 0, 0, 0, 0]), 16, AddressClass::EmbedsIpv4),
    (ipv6([0x3fff, 0, 0, 0, 0, 0, 0, 0]), 20, AddressClass::Documentation),
    (ipv6([0xfc00, 0, 0, 0, 0, 0, 0, 0]), 7, AddressClass::Private),
    (ipv6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10, AddressClass::LinkLocal),
    (ipv6([0xfec0, 0, 0, 0, 0, 0, 0, 0]), 10, AddressClass::SiteLocal),
    (ipv6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, AddressClass::Multicast),
];

/// Global unicast: the only part of IPv6 whose addresses are assigned to hosts of the Internet.
const IPV6_GLOBAL: (IpAddr, u8) = (ipv6([0x2000, 0, 0, 0, 0, 0, 0, 0]), 3);

/// Returns the networks whose addresses are not public, for firewalls beside the process: an address and the length of the prefix. Of
/// IPv6, whatever is not global unicast (`2000::/3`) is not public either.
pub fn special_networks() -> impl Iterator<Item = (IpAddr, u8)> {
    CLASSES.iter().map(|(network, prefix, _)| (*network, *prefix))
}

/// Returns the class of an address; `None` if it is public.
pub(crate) fn classify(address: IpAddr) -> Option<AddressClass> {
    let listed = CLASSES.iter().find(|(network, prefix, _)| contains(*network, *prefix, address));
    match (listed, address) {
        (Some((_, _, class)), _) => Some(*class),
        (None, IpAddr::V4(_)) => None,
        (None, IpAddr::V6(_)) if !contains(IPV6_GLOBAL.0, IPV6_GLOBAL.1, address) => Some(AddressClass::Reserved),
        (None, IpAddr::V6(address)) => is_isatap(address).then_some(AddressClass::EmbedsIpv4),
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

/// Returns whether the network that begins with the address `network`, of `prefix` bits, contains `address`.
pub(crate) fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && first_address(address, prefix) == network
}

/// Returns the first address of the network of `prefix` bits that has `address`.
pub(crate) fn first_address(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::BITS - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u128::BITS - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

const fn ipv4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn ipv6([a, b, c, d, e, f, g, h]: [u16; 8]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h))
}
