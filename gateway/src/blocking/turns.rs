//! A fair queue: how many jobs run at once, how many wait, and which is next. The client with the
//! fewest earlier jobs goes first, so the first request of one client never waits for the tenth of
//! another.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_listener::{Client, Quota, QuotaFull, QuotaLimits, Share};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Order in the queue: the number of jobs that the client already had, then the order of arrival.
type Place = (usize, u64);

#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Jobs that run or wait.
    places: Quota,
    running: Quota,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    arrivals: u64,
    waiting: BTreeMap<Place, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    client: Client,
    place: Share,
    start: oneshot::Sender<Turn>,
}

/// A turn, which ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Returned before the next job starts, so that it finds them.
    shares: Option<(Share, Share)>,
    turns: Turns,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shares = None;
        self.turns.start_next();
    }
}

/// Removes a client that stops waiting from the queue.
struct Entry<'t> {
    turns: &'t Turns,
    place: Place,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let left = self.turns.0.queue.lock().waiting.remove(&self.place);
        drop(left);
    }
}

impl Turns {
    /// Runs as many jobs at once as `running` allows, and queues up to `max_waiting` more.
    pub(crate) fn new(running: QuotaLimits, max_waiting: usize) -> Self {
        let places = Quota::new(QuotaLimits::of(running.total + max_waiting));
        Self(Arc::new(Inner { places, running: Quota::new(running), queue: Mutex::default() }))
    }

    /// Waits for the turn of `client`. Dropping the future gives up the place. Fails if the queue,
    /// or the client's share of it, is full.
    pub(crate) async fn wait(&self, client: Client) -> Result<Turn, QuotaFull> {
        let (start, started) = oneshot::channel();
        let place = {
            let mut queue = self.0.queue.lock();
            let own = self.0.places.held_by(client);
            let share = self.0.places.take(client)?;
            queue.arrivals += 1;
            let place = (own, queue.arrivals);
            queue.waiting.insert(place, Waiting { client, place: share, start });
            place
        };
        let _entry = Entry { turns: self, place };
        self.start_next();
        started.await.map_err(|_| QuotaFull::Total)
    }

    fn start_next(&self) {
        while let Some((turn, start)) = self.next() {
            // Send without holding the lock: if the receiver is gone, the turn is dropped here and
            // ends.
            drop(start.send(turn));
        }
    }

    fn next(&self) -> Option<(Turn, oneshot::Sender<Turn>)> {
        let mut queue = self.0.queue.lock();
        let first = |(place, waiting): (&Place, &Waiting)| Some((*place, self.0.running.take(waiting.client).ok()?));
        let (place, running) = queue.waiting.iter().find_map(first)?;
        let Waiting { place, start, .. } = queue.waiting.remove(&place)?;
        Some((Turn { shares: Some((running, place)), turns: self.clone() }, start))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn client(address: u8) -> Client {
        Client { address: Some([192, 0, 2, address].into()), user: None }
    }

    #[tokio::test]
    async fn clients_take_turns_whatever_each_has_waiting() {
        let turns = Turns::new(QuotaLimits::of(1), 16);
        let first = turns.wait(client(1)).await.unwrap();
        let mut order = Vec::new();
        // Four more jobs of the first client, then two of a second and one of a third.
        for (name, address) in [("a1", 1), ("a2", 1), ("a3", 1), ("a4", 1), ("b1", 2), ("b2", 2), ("c1", 3)] {
            order.push((name, Box::pin(turns.wait(client(address)))));
        }
        for (name, waiting) in &mut order {
            assert!(poll!(waiting).is_pending(), "{name}");
        }
        drop(first);
        let mut started = Vec::new();
        while !order.is_empty() {
            let mut ready = None;
            for (at, (name, waiting)) in order.iter_mut().enumerate() {
                if let std::task::Poll::Ready(turn) = poll!(waiting) {
                    started.push(*name);
                    ready = Some((at, turn.unwrap()));
                    break;
                }
            }
            let (at, turn) = ready.expect("somebody is next");
            drop(order.remove(at));
            drop(turn);
        }
        assert_eq!(started, ["b1", "c1", "a1", "b2", "a2", "a3", "a4"]);
    }

    #[tokio::test]
    async fn a_client_that_stops_to_wait_gives_its_place_back() {
        let turns = Turns::new(QuotaLimits::of(1), 1);
        let first = turns.wait(client(1)).await.unwrap();
        let mut second = Box::pin(turns.wait(client(2)));
        assert!(poll!(&mut second).is_pending());
        assert_eq!(turns.wait(client(3)).await.unwrap_err(), QuotaFull::Total);
        drop(second);
        let mut third = Box::pin(turns.wait(client(3)));
        assert!(poll!(&mut third).is_pending());
        drop(first);
        // A turn ends even if its receiver never read it.
        drop(third);
        assert!(turns.wait(client(4)).await.is_ok());
        assert!(turns.0.queue.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn one_client_never_runs_more_than_its_part() {
        let turns = Turns::new(QuotaLimits::of(4), 8);
        let mut running = Vec::new();
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(turns.wait(client(1)))).collect();
        for turn in &mut waiting {
            if let std::task::Poll::Ready(turn) = poll!(turn) {
                running.push(turn.unwrap());
            }
        }
        assert_eq!(running.len(), 2);
        assert!(turns.wait(client(2)).await.is_ok());
    }
}
