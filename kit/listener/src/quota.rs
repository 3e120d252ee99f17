//! A limit shared by all clients, with smaller limits per address, IPv6 network and account, so
//! that no client takes everything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

const ADDRESS_BITS_V6: u32 = 64;
const NETWORK_BITS_V6: u32 = 48;

/// Returns the address that a client is counted by. For IPv6 this is the /64 network, which usually
/// belongs to one client.
#[must_use]
pub fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(network(address, ADDRESS_BITS_V6)),
        address @ IpAddr::V4(_) => address,
    }
}

fn network(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (u128::BITS - bits)))
}

/// A client. Without address and account, only the total limits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// Its address; `None` over Unix sockets and for trusted proxies.
    pub address: Option<IpAddr>,
    /// Its account, once known.
    pub user: Option<i64>,
}

/// Something that has a limit: all its clients count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(i64),
    Address(IpAddr),
    Network(Ipv6Addr),
}

impl Client {
    /// Returns the holders that this client counts for, the narrowest first.
    fn holders(self) -> impl Iterator<Item = Holder> {
        let address = self.address.map(counted_address);
        let network = match address {
            Some(IpAddr::V6(address)) => Some(Holder::Network(network(address, NETWORK_BITS_V6))),
            Some(IpAddr::V4(_)) | None => None,
        };
        [self.user.map(Holder::User), address.map(Holder::Address), network].into_iter().flatten()
    }
}

/// The limits of a quota.
#[derive(Clone, Copy, Debug)]
pub struct QuotaLimits {
    /// Limit of all clients together.
    pub total: usize,
    /// Limit of an IPv4 address or IPv6 /64 network.
    pub per_address: usize,
    /// Limit of an IPv6 /48 network.
    pub per_network: usize,
    /// Limit of an account.
    pub per_user: usize,
}

impl QuotaLimits {
    /// No limits.
    pub const NONE: Self =
        Self { total: usize::MAX, per_address: usize::MAX, per_network: usize::MAX, per_user: usize::MAX };

    /// Returns limits on `total` things: half of them per address and a quarter per account, but at
    /// least one.
    #[must_use]
    pub fn of(total: usize) -> Self {
        Self { total, per_address: (total / 2).max(1), per_user: (total / 4).max(1), ..Self::NONE }
    }

    fn of_holder(&self, holder: Holder) -> usize {
        match holder {
            Holder::User(_) => self.per_user,
            Holder::Address(_) => self.per_address,
            Holder::Network(_) => self.per_network,
        }
    }
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaFull {
    /// The limit of all clients.
    Total,
    /// The limit of the client's address.
    Address(usize),
    /// The limit of the client's IPv6 network.
    Network(usize),
    /// The limit of the client's account.
    User(usize),
}

impl QuotaFull {
    /// Returns the name of the limit in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Total => "full",
            Self::Address(_) => "address",
            Self::Network(_) => "network",
            Self::User(_) => "user",
        }
    }

    /// Returns the message for a client that asked for too many `things`.
    #[must_use]
    pub fn message(self, things: &str) -> String {
        match self {
            Self::Total => format!("too many concurrent {things}, try again later"),
            Self::Address(limit) => {
                format!("too many concurrent {things}: at most {limit} per address, try again later")
            }
            Self::Network(limit) => {
                format!("too many concurrent {things}: at most {limit} per network, try again later")
            }
            Self::User(limit) => format!("too many concurrent {things}: at most {limit} per account, try again later"),
        }
    }
}

/// Counts what clients hold and enforces limits. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Quota {
    limits: QuotaLimits,
    taken: Arc<Mutex<Taken>>,
}

/// The counts of a quota. Holders of nothing have no entry.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) total: usize,
    holders: HashMap<Holder, usize>,
}

impl Taken {
    fn of_holder(&self, holder: Holder) -> usize {
        self.holders.get(&holder).copied().unwrap_or_default()
    }

    /// Returns what `client` holds by address or by account, whichever is more.
    pub(super) fn of_client(&self, client: Client) -> usize {
        let own = client.holders().filter(|holder| !matches!(holder, Holder::Network(_)));
        own.map(|holder| self.of_holder(holder)).max().unwrap_or_default()
    }

    fn add(&mut self, client: Client, amount: usize) {
        self.total += amount;
        for holder in client.holders() {
            *self.holders.entry(holder).or_default() += amount;
        }
    }

    fn remove(&mut self, client: Client, amount: usize) {
        self.total -= amount;
        for holder in client.holders() {
            if let Entry::Occupied(mut held) = self.holders.entry(holder) {
                *held.get_mut() -= amount;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }
}

impl Quota {
    /// Returns an unused quota.
    #[must_use]
    pub fn new(limits: QuotaLimits) -> Self {
        Self { limits, taken: Arc::default() }
    }

    /// Returns what `client` holds by address or by account, whichever is more.
    #[must_use]
    pub fn held_by(&self, client: Client) -> usize {
        self.taken.lock().of_client(client)
    }

    /// Returns an empty share for `client`.
    #[must_use]
    pub fn share_of(&self, client: Client) -> Share {
        Share { of: Some((self.clone(), client)), amount: 0 }
    }

    /// Takes one unit for `client`.
    ///
    /// # Errors
    /// The limit that is reached, as in [`Share::grow_to`].
    pub fn take(&self, client: Client) -> Result<Share, QuotaFull> {
        let mut share = self.share_of(client);
        share.grow_to(1)?;
        Ok(share)
    }

    /// Takes `amount` for `client` if `check`, which replaces the limits, allows it. The counts do
    /// not change in between.
    pub(super) fn take_if<E>(
        &self,
        client: Client,
        amount: usize,
        check: impl FnOnce(&Taken) -> Result<(), E>,
    ) -> Result<Share, E> {
        let mut taken = self.taken.lock();
        check(&taken)?;
        taken.add(client, amount);
        drop(taken);
        Ok(Share { of: Some((self.clone(), client)), amount })
    }

    /// Whether nothing is taken and no counts are left.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        let taken = self.taken.lock();
        taken.total == 0 && taken.holders.is_empty()
    }
}

/// The share of a quota that one client holds. Returned when dropped. The default share is empty
/// and cannot grow.
#[derive(Debug, Default)]
pub struct Share {
    of: Option<(Quota, Client)>,
    amount: usize,
}

impl Share {
    /// Whether the share is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.amount == 0
    }

    /// Grows the share to `amount`, if it is smaller.
    ///
    /// # Errors
    /// The limit that is reached; nothing is taken. Limits are checked from the narrowest: account,
    /// address, network, total.
    pub fn grow_to(&mut self, amount: usize) -> Result<(), QuotaFull> {
        let Some((quota, client)) = &self.of else { return Err(QuotaFull::Total) };
        let Some(more) = amount.checked_sub(self.amount).filter(|more| *more > 0) else { return Ok(()) };
        let (limits, mut taken) = (&quota.limits, quota.taken.lock());
        let exceeds = |holder: &Holder| taken.of_holder(*holder).saturating_add(more) > limits.of_holder(*holder);
        match client.holders().find(exceeds) {
            Some(Holder::User(_)) => return Err(QuotaFull::User(limits.per_user)),
            Some(Holder::Address(_)) => return Err(QuotaFull::Address(limits.per_address)),
            Some(Holder::Network(_)) => return Err(QuotaFull::Network(limits.per_network)),
            None if taken.total.saturating_add(more) > limits.total => return Err(QuotaFull::Total),
            None => {}
        }
        taken.add(*client, more);
        drop(taken);
        self.amount = amount;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((quota, client)) = &self.of {
            quota.taken.lock().remove(*client, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str, user: i64) -> Client {
        Client { address: Some(address.parse().unwrap()), user: Some(user) }
    }

    #[test]
    fn a_client_is_its_address_or_its_network() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(counted_address(address.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn no_client_takes_more_than_its_part_and_all_comes_back() {
        let quota = Quota::new(QuotaLimits::of(8));
        let first: Vec<_> = (0..9).filter_map(|_| quota.take(client("192.0.2.1", 1)).ok()).collect();
        assert_eq!(first.len(), 2, "a user has a quarter");
        assert_eq!(quota.take(client("192.0.2.1", 1)).unwrap_err(), QuotaFull::User(2));
        let held = |address, user| quota.held_by(client(address, user));
        assert_eq!((held("192.0.2.1", 9), held("192.0.2.9", 1), held("192.0.2.9", 9)), (2, 2, 0));
        let same_address: Vec<_> = (2..9).filter_map(|user| quota.take(client("192.0.2.1", user)).ok()).collect();
        assert_eq!(same_address.len(), 2, "an address has a half");
        assert_eq!(quota.take(client("192.0.2.1", 9)).unwrap_err(), QuotaFull::Address(4));
        let take_elsewhere = |user| quota.take(client(&format!("192.0.2.{user}"), user)).ok();
        let others: Vec<_> = (10..20).filter_map(take_elsewhere).collect();
        assert_eq!(others.len(), 4);
        assert_eq!(quota.take(Client::default()).unwrap_err(), QuotaFull::Total);
        drop((first, same_address, others));
        assert!(quota.is_unused());
        assert!(quota.take(Client::default()).is_ok());
    }

    #[test]
    fn a_share_grows_within_the_limits_and_an_empty_one_never() {
        let quota = Quota::new(QuotaLimits { total: 100, per_address: 60, per_user: 50, ..QuotaLimits::NONE });
        let mut share = quota.share_of(client("192.0.2.1", 1));
        assert!(share.is_empty() && [40, 40, 10, 50].into_iter().all(|amount| share.grow_to(amount).is_ok()));
        assert!(share.grow_to(51).is_err() && !share.is_empty());
        let mut other = quota.share_of(client("192.0.2.1", 2));
        assert!(other.grow_to(11).is_err() && other.grow_to(10).is_ok());
        drop(share);
        assert!(other.grow_to(50).is_ok() && Share::default().grow_to(1).is_err());
    }

    #[test]
    fn what_is_taken_by_a_network_is_not_held_by_its_addresses() {
        let quota = Quota::new(QuotaLimits { per_network: 2, ..QuotaLimits::NONE });
        let of = |address: &str| Client { user: None, ..client(address, 0) };
        let shares = ["2001:db8:1:1::1", "2001:db8:1:2::1"].map(|address| quota.take(of(address)).unwrap());
        let third = of("2001:db8:1:3::1");
        assert_eq!((quota.held_by(third), quota.take(third).unwrap_err()), (0, QuotaFull::Network(2)));
        drop(shares);
        assert!(quota.is_unused());
    }
}
