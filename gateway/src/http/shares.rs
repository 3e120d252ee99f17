//! Shares of a total: so much in all, so much of one address, and so much of one user, so that no client takes everything.
//!
//! Not here: what is shared ([`super::body_limits`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use ferrite_proto::metadata;
use parking_lot::Mutex;

/// The client for whom something is taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    /// The address under which it is counted; `None` over Unix sockets.
    pub(crate) address: Option<IpAddr>,
    /// Its account, once that is known.
    pub(crate) user: Option<i64>,
}

impl Client {
    /// Returns the client of a request, whose address the middleware has set.
    pub(crate) fn of(headers: &HeaderMap, user: Option<i64>) -> Self {
        let address = headers.get(metadata::CLIENT).and_then(|address| address.to_str().ok()?.parse().ok());
        Self { address, user }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Address(IpAddr),
    User(i64),
}

/// Limits of what is shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    pub(crate) total: usize,
    pub(crate) per_address: usize,
    pub(crate) per_user: usize,
}

impl ShareLimits {
    /// Returns limits on `total` things, of which an address has at most half and a user a quarter, but at least one.
    pub(crate) fn of(total: usize) -> Self {
        Self { total, per_address: (total / 2).max(1), per_user: (total / 4).max(1) }
    }

    fn of_holder(&self, holder: Holder) -> usize {
        match holder {
            Holder::Address(_) => self.per_address,
            Holder::User(_) => self.per_user,
        }
    }
}

/// The limit that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// That of all clients.
    Total,
    /// That of the client's address.
    Address(usize),
    /// That of the client's account.
    User(usize),
}

impl Full {
    /// Returns the message for a client that asks for more `things` than the limit has room for.
    pub(crate) fn message(self, things: &str) -> String {
        match self {
            Self::Total => format!("too many {things} at once, try again"),
            Self::Address(limit) => format!("too many {things} at once: {limit} per address, try again"),
            Self::User(limit) => format!("too many {things} at once: {limit} per account, try again"),
        }
    }
}

/// The counts of all shares; clones have the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    limits: ShareLimits,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    holders: HashMap<Holder, usize>,
}

impl Shares {
    pub(crate) fn new(limits: ShareLimits) -> Self {
        Self { limits, taken: Arc::default() }
    }

    /// Returns what `client` has, by its address or by its account, whichever has more.
    pub(crate) fn held_by(&self, client: Client) -> usize {
        let taken = self.taken.lock();
        let held = |holder| taken.holders.get(&holder).copied().unwrap_or_default();
        holders(client).map(held).max().unwrap_or_default()
    }

    /// Returns a share of `client` in which there is nothing yet.
    pub(crate) fn share_of(&self, client: Client) -> Share {
        Share { of: Some((self.clone(), client)), amount: 0 }
    }
}

fn holders(client: Client) -> impl Iterator<Item = Holder> {
    client.address.map(Holder::Address).into_iter().chain(client.user.map(Holder::User))
}

/// The share of one request, returned when dropped. The default one is of nothing, and never has anything.
#[derive(Debug, Default)]
pub(crate) struct Share {
    of: Option<(Shares, Client)>,
    amount: usize,
}

impl Share {
    /// True if there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.amount == 0
    }

    /// Takes as much as makes it `amount`, if it has less.
    ///
    /// # Errors
    /// The limit that is exceeded: nothing is taken. That of the account before that of the address, which others may share.
    pub(crate) fn grow_to(&mut self, amount: usize) -> Result<(), Full> {
        let Some((shares, client)) = &self.of else { return Err(Full::Total) };
        let Some(more) = amount.checked_sub(self.amount).filter(|more| *more > 0) else { return Ok(()) };
        let mut taken = shares.taken.lock();
        let exceeds = |holder: &Holder| {
            let held = taken.holders.get(holder).copied().unwrap_or_default();
            held.saturating_add(more) > shares.limits.of_holder(*holder)
        };
        match holders(*client).filter(exceeds).last() {
            Some(Holder::User(_)) => return Err(Full::User(shares.limits.per_user)),
            Some(Holder::Address(_)) => return Err(Full::Address(shares.limits.per_address)),
            None if taken.total.saturating_add(more) > shares.limits.total => return Err(Full::Total),
            None => {}
        }
        taken.total += more;
        for holder in holders(*client) {
            *taken.holders.entry(holder).or_default() += more;
        }
        drop(taken);
        self.amount = amount;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some((shares, client)) = self.of.as_ref().filter(|_| self.amount > 0) else { return };
        let mut taken = shares.taken.lock();
        taken.total -= self.amount;
        for holder in holders(*client) {
            let held = taken.holders.get_mut(&holder).map(|held| {
                *held -= self.amount;
                *held
            });
            if held == Some(0) {
                taken.holders.remove(&holder);
            }
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
    fn no_client_takes_more_than_its_part_and_all_comes_back() {
        let shares = Shares::new(ShareLimits::of(8));
        let take = |client| {
            let mut share = shares.share_of(client);
            share.grow_to(1).map(|()| share)
        };
        let first: Vec<_> = (0..9).filter_map(|_| take(client("192.0.2.1", 1)).ok()).collect();
        assert_eq!(first.len(), 2, "a user has a quarter");
        assert_eq!(take(client("192.0.2.1", 1)).unwrap_err(), Full::User(2));
        let held = |address, user| shares.held_by(client(address, user));
        assert_eq!((held("192.0.2.1", 9), held("192.0.2.9", 1), held("192.0.2.9", 9)), (2, 2, 0));
        let same_address: Vec<_> = (2..9).filter_map(|user| take(client("192.0.2.1", user)).ok()).collect();
        assert_eq!(same_address.len(), 2, "an address has a half");
        assert_eq!(take(client("192.0.2.1", 9)).unwrap_err(), Full::Address(4));
        let others: Vec<_> = (10..20).filter_map(|user| take(client(&format!("192.0.2.{user}"), user)).ok()).collect();
        assert_eq!(others.len(), 4);
        assert_eq!(take(Client::default()).unwrap_err(), Full::Total);
        drop((first, same_address, others));
        let left = shares.taken.lock().holders.len();
        assert_eq!((shares.taken.lock().total, left), (0, 0));
        assert!(take(Client::default()).is_ok());
    }

    #[test]
    fn a_share_grows_within_the_limits_and_an_empty_one_never() {
        let shares = Shares::new(ShareLimits { total: 100, per_address: 60, per_user: 50 });
        let mut share = shares.share_of(client("192.0.2.1", 1));
        assert!(share.is_empty() && [40, 40, 10, 50].into_iter().all(|amount| share.grow_to(amount).is_ok()));
        assert!(share.grow_to(51).is_err() && !share.is_empty());
        let mut other = shares.share_of(client("192.0.2.1", 2));
        assert!(other.grow_to(11).is_err() && other.grow_to(10).is_ok());
        drop(share);
        assert!(other.grow_to(50).is_ok() && Share::default().grow_to(1).is_err());
    }
}
