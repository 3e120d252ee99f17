//! The addresses of the replicas of one service: `repo-svc:7001`, or `10.0.0.1:7001,10.0.0.2:7001`.

use std::fmt;
use std::str::FromStr;

use super::{Address, BadAddress};

const MAX_ADDRESSES: usize = 64;

/// The addresses of one service, at least one. Each may be a host name that resolves to several
/// replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAddresses(Vec<Address>);

/// Why a text is not a list of [`ServiceAddresses`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServiceAddresses {
    /// A part is not an address.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// An address is repeated.
    #[error("`{0}` is repeated")]
    Repeated(Address),
    /// There are too many addresses.
    #[error("must have at most {MAX_ADDRESSES} addresses")]
    TooMany,
}

impl ServiceAddresses {
    /// Returns the addresses, in the order of the setting.
    pub fn iter(&self) -> std::slice::Iter<'_, Address> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a ServiceAddresses {
    type Item = &'a Address;
    type IntoIter = std::slice::Iter<'a, Address>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromStr for ServiceAddresses {
    type Err = BadServiceAddresses;

    fn from_str(text: &str) -> Result<Self, BadServiceAddresses> {
        let mut addresses = Vec::new();
        for text in text.split(',') {
            let address: Address = text.trim().parse()?;
            if addresses.contains(&address) {
                return Err(BadServiceAddresses::Repeated(address));
            }
            addresses.push(address);
        }
        if addresses.len() > MAX_ADDRESSES { Err(BadServiceAddresses::TooMany) } else { Ok(Self(addresses)) }
    }
}

impl fmt::Display for ServiceAddresses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str(",")?;
            }
            address.fmt(out)?;
        }
        Ok(())
    }
}

impl From<Address> for ServiceAddresses {
    fn from(address: Address) -> Self {
        Self(vec![address])
    }
}

impl From<&Address> for ServiceAddresses {
    fn from(address: &Address) -> Self {
        address.clone().into()
    }
}

impl From<&ServiceAddresses> for ServiceAddresses {
    fn from(addresses: &ServiceAddresses) -> Self {
        addresses.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_a_list_are_parsed() {
        for text in ["repo-svc:7001", "unix:/run/x.sock", "127.0.0.1:1,127.0.0.1:2", "a:1,unix:/b,c:3"] {
            assert_eq!(text.parse::<ServiceAddresses>().unwrap().to_string(), text);
        }
        let spaced: ServiceAddresses = "a:1, b:2".parse().unwrap();
        assert_eq!(spaced.iter().count(), 2);
    }

    #[test]
    fn lists_with_gaps_repetitions_and_too_many_are_refused() {
        for wrong in ["", ",", "a:1,", "a:1,,b:2", "a:1,b"] {
            assert_eq!(wrong.parse::<ServiceAddresses>(), Err(BadServiceAddresses::Address(BadAddress)), "{wrong:?}");
        }
        assert_eq!("a:1,a:1".parse::<ServiceAddresses>().unwrap_err().to_string(), "`a:1` is repeated");
        let many: Vec<_> = (1..=MAX_ADDRESSES + 1).map(|port| format!("a:{port}")).collect();
        assert_eq!(many.join(",").parse::<ServiceAddresses>(), Err(BadServiceAddresses::TooMany));
    }
}
