//! Tracks one connection: its requests, the request header being received, and the responses that
//! the client takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits::{ListenerLimits, PublicLimits};

/// Stands for a time that is not set.
const NEVER: u64 = u64::MAX;
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(5);
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time for a connection without requests to close after it was told to go away.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The activity of one connection. Times are milliseconds since `epoch`.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    epoch: Instant,
    opened_at: Instant,
    /// Requests without a complete response.
    requests: AtomicUsize,
    /// When the last request ended; [`NEVER`] before [`ConnectionActivity::start`].
    idle_since: AtomicU64,
    /// When the first byte of an incomplete HTTP/1 header arrived; [`NEVER`] if there is none.
    header_since: AtomicU64,
    /// True while the socket has bytes that the client has not taken.
    is_write_pending: AtomicBool,
    /// When the responses that wait for the client are overdue.
    responses: Mutex<Vec<Arc<AtomicU64>>>,
    is_evicted: AtomicBool,
    /// Cancelled when the connection must close.
    close: CancellationToken,
}

/// The next step for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Check again at this time.
    Wait(Instant),
    /// Accept no more requests, for this reason.
    Close(&'static str),
    /// Close at once, for this reason.
    Cut(&'static str),
}

impl ConnectionActivity {
    pub(super) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            opened_at: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(NEVER),
            header_since: AtomicU64::new(NEVER),
            is_write_pending: AtomicBool::new(false),
            responses: Mutex::default(),
            is_evicted: AtomicBool::new(false),
            close: CancellationToken::new(),
        }
    }

    fn millis(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.epoch).as_millis()).unwrap_or(NEVER - 1)
    }

    fn time(&self, millis: u64) -> Option<Instant> {
        (millis != NEVER).then(|| self.epoch + Duration::from_millis(millis))
    }

    /// Starts to count the connection as idle.
    pub(super) fn start(&self) {
        self.idle_since.store(self.millis(Instant::now()), Ordering::SeqCst);
    }

    pub(super) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.header_since.store(NEVER, Ordering::SeqCst);
        RequestGuard(Arc::clone(self))
    }

    /// Records that bytes arrived over HTTP/1. Outside a request they start the next header.
    pub(super) fn on_received(&self) {
        if self.requests.load(Ordering::SeqCst) == 0 && self.header_since.load(Ordering::SeqCst) == NEVER {
            self.header_since.store(self.millis(Instant::now()), Ordering::SeqCst);
        }
    }

    pub(super) fn set_write_pending(&self, is_pending: bool) {
        self.is_write_pending.store(is_pending, Ordering::SeqCst);
    }

    /// Returns when the connection became idle; `None` while it has a request or an unread part of
    /// a response.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let is_busy = self.requests.load(Ordering::SeqCst) > 0 || self.is_write_pending.load(Ordering::SeqCst);
        if is_busy { None } else { self.time(self.idle_since.load(Ordering::SeqCst)) }
    }

    /// Makes the connection close to make room for another one. Returns false if it was already
    /// told to.
    pub(super) fn evict(&self) -> bool {
        let is_first = !self.is_evicted.swap(true, Ordering::SeqCst);
        self.close.cancel();
        is_first
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::SeqCst)
    }

    /// Waits until the connection must make room.
    pub(super) async fn evicted(&self) {
        self.close.cancelled().await;
    }

    /// Returns what is due at `now`. `closing_at` is when the connection was told to go away, if it
    /// was.
    pub(super) fn due(
        &self,
        now: Instant,
        limits: &ListenerLimits,
        public: &PublicLimits,
        closing_at: Option<Instant>,
    ) -> Due {
        let shortest = limits.header_timeout.min(limits.write_timeout).min(public.idle_timeout) / 4;
        let mut next = now + shortest.clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
        let mut is_due = |time: Instant| {
            next = next.min(time.max(now));
            time <= now
        };
        if self.overdue_response().is_some_and(&mut is_due) {
            return Due::Cut("slow_reader");
        }
        let header = self.time(self.header_since.load(Ordering::SeqCst));
        if header.is_some_and(|since| is_due(since + limits.header_timeout)) {
            return Due::Cut("header");
        }
        let idle_since = self.idle_since();
        if let Some(closing_at) = closing_at {
            if idle_since.is_some_and(|since| is_due(since.max(closing_at) + CLOSE_TIMEOUT)) {
                return Due::Cut("closing");
            }
        } else if is_due(self.opened_at + public.max_age) {
            return Due::Close("age");
        } else if idle_since.is_some_and(|since| is_due(since + public.idle_timeout)) {
            return Due::Close("idle");
        }
        Due::Wait(next)
    }

    fn overdue_response(&self) -> Option<Instant> {
        let responses = self.responses.lock();
        let earliest = responses.iter().map(|due| due.load(Ordering::SeqCst)).min().unwrap_or(NEVER);
        self.time(earliest)
    }
}

/// Counts a request of its connection until dropped.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<ConnectionActivity>);

impl RequestGuard {
    /// Adds a response that the client takes through flow control, not through the socket.
    pub(super) fn add_response(&self) -> ResponseDue {
        let due = Arc::new(AtomicU64::new(NEVER));
        self.0.responses.lock().push(Arc::clone(&due));
        ResponseDue { activity: Arc::clone(&self.0), due }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.start();
        }
    }
}

/// When one response is overdue. Removed when dropped.
#[derive(Debug)]
pub(super) struct ResponseDue {
    activity: Arc<ConnectionActivity>,
    due: Arc<AtomicU64>,
}

impl ResponseDue {
    /// Sets when the response is overdue; `None` while it does not wait for the client.
    pub(super) fn set(&self, time: Option<Instant>) {
        self.due.store(time.map_or(NEVER, |time| self.activity.millis(time)), Ordering::SeqCst);
    }
}

impl Drop for ResponseDue {
    fn drop(&mut self) {
        let mut responses = self.activity.responses.lock();
        responses.retain(|due| !Arc::ptr_eq(due, &self.due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> (ListenerLimits, PublicLimits) {
        let public = PublicLimits { idle_timeout: SECOND * 60, max_age: SECOND * 1000, ..PublicLimits::default() };
        (ListenerLimits::public(public), public)
    }

    fn due_in(seconds: u32, activity: &ConnectionActivity, closing_at: Option<Instant>) -> Option<Due> {
        let (limits, public) = limits();
        let due = activity.due(Instant::now() + SECOND * seconds, &limits, &public, closing_at);
        Some(due).filter(|due| !matches!(due, Due::Wait(_)))
    }

    fn started() -> Arc<ConnectionActivity> {
        let activity = Arc::new(ConnectionActivity::new(Instant::now()));
        activity.start();
        activity
    }

    #[test]
    fn a_connection_is_idle_between_its_requests() {
        let activity = started();
        assert_eq!((due_in(58, &activity, None), due_in(61, &activity, None)), (None, Some(Due::Close("idle"))));
        let (first, second) = (activity.begin_request(), activity.begin_request());
        drop(first);
        assert_eq!((due_in(900, &activity, None), activity.idle_since()), (None, None));
        drop(second);
        assert_eq!((due_in(58, &activity, None), due_in(61, &activity, None)), (None, Some(Due::Close("idle"))));
        activity.set_write_pending(true);
        assert_eq!(due_in(61, &activity, None), None);
    }

    #[test]
    fn a_header_that_does_not_end_is_cut() {
        let activity = started();
        assert_eq!(due_in(16, &activity, None), None);
        activity.on_received();
        assert_eq!((due_in(13, &activity, None), due_in(16, &activity, None)), (None, Some(Due::Cut("header"))));
        let _request = activity.begin_request();
        activity.on_received();
        assert_eq!(due_in(16, &activity, None), None);
    }

    #[test]
    fn further_bytes_of_a_header_give_no_more_time() {
        let activity = started();
        activity.on_received();
        let first = activity.header_since.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        activity.on_received();
        assert_eq!(activity.header_since.load(Ordering::SeqCst), first);
    }

    #[test]
    fn a_response_that_its_client_does_not_take_is_cut() {
        let activity = started();
        let request = activity.begin_request();
        let (taken, waiting) = (request.add_response(), request.add_response());
        taken.set(None);
        waiting.set(Some(Instant::now() + SECOND * 30));
        assert_eq!((due_in(28, &activity, None), due_in(31, &activity, None)), (None, Some(Due::Cut("slow_reader"))));
        drop(waiting);
        assert_eq!(due_in(31, &activity, None), None);
    }

    #[test]
    fn an_old_connection_closes_after_its_requests() {
        let activity = started();
        let request = activity.begin_request();
        assert_eq!((due_in(998, &activity, None), due_in(1001, &activity, None)), (None, Some(Due::Close("age"))));
        let closing_at = Some(Instant::now());
        assert_eq!(due_in(2000, &activity, closing_at), None);
        drop(request);
        assert_eq!(
            (due_in(0, &activity, closing_at), due_in(3, &activity, closing_at)),
            (None, Some(Due::Cut("closing")))
        );
    }
}
