//! A relay drains a backlog, while another subscriber gets events.

use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_events::{Relay, Subscribers, append, event};
use ferrite_proto::events::IssueChanged;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;

use crate::backlog::AWAY;
use crate::subscribers::{Counter, Stopwatch, serve};

/// The subscriber that was always online.
const PRESENT: &str = "present";
/// The repository of its events.
const REPOSITORY: RepositoryId = RepositoryId(1_000_000_000);
/// Interval between its events.
const EVENT_INTERVAL: Duration = Duration::from_millis(20);
/// Duration of the measurement of its events without the backlog.
const QUIET: Duration = Duration::from_secs(2);
const RETENTION: Duration = Duration::from_secs(1800);
const WAITING: &str = "SELECT COUNT(*) FROM outbox WHERE subscriber = $1 AND delivered_us IS NULL";

#[derive(Debug)]
pub(crate) struct Drained {
    /// Events per second.
    pub(crate) rate: f64,
    pub(crate) late_before: Vec<Duration>,
    pub(crate) late_meanwhile: Vec<Duration>,
}

/// Writes an event for the online subscriber every 20 ms, until `end` returns true.
async fn write_events(db: &Db, relay: &Relay, watch: &Stopwatch, end: impl Fn() -> bool) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(EVENT_INTERVAL);
    let clock = Clock::system();
    while !end() {
        ticks.tick().await;
        let now = clock.now_us();
        let event = event(REPOSITORY, now, Fact::IssueChanged(IssueChanged::default()));
        let flush = relay.flush(&event, &[PRESENT]);
        let mut tx = db.begin().await?;
        append(&mut tx, &event, &[PRESENT], now).await?;
        watch.start(&event.event_id);
        tx.commit().await?;
        flush.wait().await;
    }
    Ok(())
}

/// Drains the backlog for at most `limit`.
pub(crate) async fn measure(db: &Db, limit: Duration) -> Result<Drained, Failure> {
    let folder = tempfile::tempdir()?;
    let (counter, watch) = (Counter::default(), Stopwatch::default());
    let (away, counting) = serve(folder.path(), AWAY, counter.clone())?;
    let (present, measuring) = serve(folder.path(), PRESENT, watch.clone())?;
    let life = Lifecycle::new(Duration::from_secs(5));

    let quiet = Relay::new(db.clone(), Clock::system(), Subscribers::from([(PRESENT, present.clone())]));
    quiet.start(RETENTION, &life);
    let begin = Instant::now();
    write_events(db, &quiet, &watch, || begin.elapsed() >= QUIET).await?;
    let late_before = watch.take();
    life.stop();
    life.finished().await;

    let (backlog,): (i64,) = db.one(WAITING, &args![AWAY]).await?;
    let backlog = u64::try_from(backlog)?;
    let life = Lifecycle::new(Duration::from_secs(5));
    let relay = Relay::new(db.clone(), Clock::system(), Subscribers::from([(AWAY, away), (PRESENT, present)]));
    relay.start(RETENTION, &life);
    let begin = Instant::now();
    let is_over = || counter.count() >= backlog || begin.elapsed() >= limit;
    write_events(db, &relay, &watch, is_over).await?;
    let rate = counter.count() as f64 / begin.elapsed().as_secs_f64();
    let late_meanwhile = watch.take();
    life.stop();
    life.finished().await;
    counting.abort();
    measuring.abort();
    Ok(Drained { rate, late_before, late_meanwhile })
}
