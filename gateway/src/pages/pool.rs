//! The places for expensive pages, such as diffs and blames: how many are made at once, how many
//! wait, and for how long. They are apart from the limits of the API, and visitors without an
//! account share half of them, so that nobody else waits behind crawlers.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ferrite_listener::{Client, QuotaFull, QuotaLimits};

use crate::blocking::turns::Turns;
use crate::http::error::ApiError;

const MAX_WAIT: Duration = Duration::from_secs(10);
/// A little more than git-svc takes to make an archive.
const MAX_ARCHIVE_WORK: Duration = Duration::from_secs(160);
/// Crawlers come back later than people would.
const RETRY_SECONDS: u64 = 10;

/// What an expensive page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Archive,
    Blame,
    Diff,
    History,
    Search,
}

/// The bounds of expensive pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpensiveLimits {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    /// The time to make a page.
    pub(crate) work: Duration,
}

/// Why a page is not made.
#[derive(Debug)]
pub(super) enum Refusal {
    /// This client got no place.
    Busy(ApiError),
    /// The page takes too long, whoever asks.
    Slow(ApiError),
}

#[derive(Debug)]
pub(super) struct ExpensivePool {
    all: Turns,
    /// Taken first by visitors without an account.
    anonymous: Turns,
    max_wait: Duration,
    max_work: Duration,
}

/// Counts one in a gauge until dropped.
struct Counted(&'static str);

impl Counted {
    fn by(gauge: &'static str) -> Self {
        metrics::gauge!(gauge).increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!(self.0).decrement(1.0);
    }
}

/// Measures the time in the pool, also of work that its visitor left.
struct Measured(Group, Instant);

impl Drop for Measured {
    fn drop(&mut self) {
        let Self(group, start) = self;
        metrics::histogram!("ferrite_expensive_page_duration_seconds", "group" => group.as_str())
            .record(start.elapsed());
    }
}

impl Group {
    /// Its name in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Blame => "blame",
            Self::Diff => "diff",
            Self::History => "history",
            Self::Search => "search",
        }
    }

    /// Whether visitors who ask for a page at the same time share it: those of a repository do,
    /// because its visibility can be asked for each. An archive is streamed.
    pub(super) fn is_shared(self) -> bool {
        match self {
            Self::Blame | Self::Diff | Self::History => true,
            Self::Archive | Self::Search => false,
        }
    }
}

impl Default for ExpensiveLimits {
    fn default() -> Self {
        Self { running: 8, waiting: 64, work: Duration::from_secs(30) }
    }
}

impl ExpensivePool {
    pub(super) fn new(limits: ExpensiveLimits) -> Self {
        let ExpensiveLimits { running, waiting, work } = limits;
        let half = (running / 2).max(1);
        Self {
            all: Turns::new(QuotaLimits::of(running), waiting),
            anonymous: Turns::new(QuotaLimits::of(half), waiting / 2),
            max_wait: MAX_WAIT,
            max_work: work,
        }
    }

    /// Waits for a place and does `work`, which ends when its time is over or the future is dropped.
    pub(super) async fn run<T>(
        &self,
        group: Group,
        client: Client,
        work: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        let waiting = Counted::by("ferrite_expensive_pages_waiting");
        let turns = async {
            let first = if client.user.is_none() { Some(self.anonymous.wait(client).await?) } else { None };
            Ok::<_, QuotaFull>((first, self.all.wait(client).await?))
        };
        let _turns = match tokio::time::timeout(self.max_wait, turns).await {
            Ok(Ok(turns)) => turns,
            Ok(Err(full)) => return Err(Refusal::Busy(refused("places", full.message("expensive pages")))),
            Err(_) => {
                return Err(Refusal::Busy(refused("wait", "timed out in the queue for expensive pages, try again")));
            }
        };
        drop(waiting);
        let _running = (Counted::by("ferrite_expensive_pages_running"), Measured(group, Instant::now()));
        let max_work = if group == Group::Archive { self.max_work.max(MAX_ARCHIVE_WORK) } else { self.max_work };
        let done = tokio::time::timeout(max_work, work).await;
        done.map_err(|_| Refusal::Slow(refused("time", "this page takes too long to make")))
    }
}

fn refused(limit: &'static str, message: impl Into<Cow<'static, str>>) -> ApiError {
    metrics::counter!("ferrite_expensive_pages_refused_total", "limit" => limit).increment(1);
    ApiError::busy(message).retried_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;

    use futures_util::poll;

    use super::*;

    type Running<'p> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'p>>;

    fn pool(running: usize, waiting: usize) -> ExpensivePool {
        ExpensivePool::new(ExpensiveLimits { running, waiting, ..ExpensiveLimits::default() })
    }

    fn client(address: u8, user: Option<i64>) -> Client {
        Client { address: Some([192, 0, 2, address].into()), user }
    }

    async fn endless(pool: &ExpensivePool, client: Client) -> Running<'_> {
        let mut work: Running<'_> = Box::pin(pool.run(Group::Diff, client, pending()));
        assert!(poll!(&mut work).is_pending());
        work
    }

    #[tokio::test]
    async fn crawlers_leave_half_of_the_places() {
        let pool = pool(4, 8);
        let mut crawlers = Vec::new();
        // Two run, and four wait.
        for address in 1..=6 {
            crawlers.push(endless(&pool, client(address, None)).await);
        }
        let refused = pool.run(Group::Blame, client(7, None), ready(())).await;
        assert!(matches!(refused, Err(Refusal::Busy(error)) if error.status.as_u16() == 503));
        for user in 1..=2 {
            assert!(pool.run(Group::Blame, client(1, Some(user)), ready(())).await.is_ok(), "{user}");
        }
        drop(crawlers);
        assert!(pool.run(Group::Blame, client(7, None), ready(())).await.is_ok(), "all places came back");
    }

    #[tokio::test]
    async fn who_waits_or_works_too_long_is_refused() {
        let pool = ExpensivePool { max_wait: Duration::from_millis(1), ..pool(2, 8) };
        let held = endless(&pool, client(1, None)).await;
        let waited = pool.run(Group::Diff, client(2, None), ready(())).await;
        let Err(Refusal::Busy(error)) = waited else { panic!("only one place is for visitors without an account") };
        assert_eq!(error.retry_after(), Some(RETRY_SECONDS));
        drop(held);
        let pool = ExpensivePool { max_work: Duration::from_millis(1), ..pool };
        assert!(matches!(pool.run(Group::Diff, client(1, None), pending::<()>()).await, Err(Refusal::Slow(_))));
    }
}
