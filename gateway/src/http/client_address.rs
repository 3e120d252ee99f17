//! The address by which a client is counted.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::HeaderValue;

/// Returns the address under which requests of a client are counted: for IPv6 its /64 network, of which one client has all
/// addresses.
pub(crate) fn client_address(address: IpAddr) -> Option<HeaderValue> {
    let counted = match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    };
    HeaderValue::try_from(counted.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_its_address_or_its_network() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(client_address(address.parse().unwrap()).unwrap(), expected);
        }
    }
}
