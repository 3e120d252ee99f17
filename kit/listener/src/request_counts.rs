//! Requests at once of each address: a client of HTTP/2 has many on each of its connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::connections::counted_address;

/// The requests without a complete response, by the addresses of their clients. Clones share the counts.
#[derive(Clone, Debug)]
pub struct RequestCounts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max_per_address: usize,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

impl RequestCounts {
    /// Makes an empty count with its bound for each address.
    #[must_use]
    pub fn new(max_per_address: usize) -> Self {
        Self(Arc::new(Inner { max_per_address, counts: Mutex::default() }))
    }

    /// Counts a request until its permit is dropped; `None` if the address has too many. Clients without an address have no bound.
    #[must_use]
    pub fn admit(&self, address: Option<IpAddr>) -> Option<RequestPermit> {
        let address = address.map(counted_address);
        if let Some(address) = address {
            let mut counts = self.0.counts.lock();
            let count = counts.entry(address).or_insert(0);
            if *count >= self.0.max_per_address {
                return None;
            }
            *count += 1;
        }
        Some(RequestPermit { _counted: Arc::new(Counted { requests: self.clone(), address }) })
    }
}

/// One request in the counts, until its last clone is dropped. In the extensions of a response, it is dropped with the body.
#[derive(Clone, Debug)]
pub struct RequestPermit {
    _counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    requests: RequestCounts,
    address: Option<IpAddr>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self.requests.0.counts.lock();
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_until_their_last_permit_is_dropped() {
        let (requests, address) = (RequestCounts::new(2), Some(IpAddr::from([192, 0, 2, 1])));
        let (first, second) = (requests.admit(address).unwrap(), requests.admit(address).unwrap());
        assert!(requests.admit(address).is_none());
        assert!(requests.admit(Some(IpAddr::from([192, 0, 2, 2]))).is_some() && requests.admit(None).is_some());
        let clone = first.clone();
        drop(first);
        assert!(requests.admit(address).is_none());
        drop(clone);
        assert!(requests.admit(address).is_some());
        drop(second);
        assert!(requests.0.counts.lock().is_empty());
    }
}
