//! Requests of all clients: times by kind and minute, failures, and acknowledged writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrite_benches::{Failure, percentile_ms};

/// Failures printed in full.
const MAX_PRINTED_FAILURES: usize = 10;
/// A scheduled write that starts later than this counts as late.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Kinds of requests, in table order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Put,
    Push,
    Clone,
    Archive,
    Read,
    CreateDelete,
}

impl Kind {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Put => "PUT contents",
            Self::Push => "git push",
            Self::Clone => "git clone",
            Self::Archive => "archive of main",
            Self::Read => "small read",
            Self::CreateDelete => "create, delete",
        }
    }
}

/// Requests of one kind that ended in one minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// Times of successful requests; ascending once the minute is over.
    pub(crate) times: Vec<Duration>,
    pub(crate) failures: usize,
}

pub(crate) type Minute = BTreeMap<Kind, Requests>;

/// Time span of a measurement: starts after the warmup, in minutes of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin: Instant,
    pub(crate) minute: Duration,
    pub(crate) minutes: u32,
}

impl Span {
    pub(crate) fn end_of(&self, minute: u32) -> Instant {
        self.begin + self.minute * (minute + 1)
    }

    fn index(&self, now: Instant) -> Option<usize> {
        let since = now.checked_duration_since(self.begin)?;
        let index = (since.as_nanos() / self.minute.as_nanos().max(1)) as usize;
        (index < self.minutes as usize).then_some(index)
    }
}

/// A repository's index in the list, and a branch.
pub(crate) type Branch = (usize, String);

#[derive(Debug, Default)]
struct State {
    minutes: Vec<Minute>,
    failures: Vec<String>,
    failed: usize,
    acknowledged: BTreeMap<Branch, Vec<String>>,
    scheduled: usize,
    late: usize,
    latest: Duration,
    plain: BTreeMap<Kind, Vec<Duration>>,
}

/// Requests of all clients.
pub(crate) struct Record {
    pub(crate) span: Span,
    is_over: AtomicBool,
    state: Mutex<State>,
}

impl Record {
    pub(crate) fn new(span: Span) -> Self {
        let state = State { minutes: vec![Minute::new(); span.minutes as usize], ..State::default() };
        Self { span, is_over: AtomicBool::new(false), state: Mutex::new(state) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a request that started at `begin`, and returns its result if it succeeded. It
    /// belongs to the minute in which it ended. During the warmup and after the end only failures
    /// count.
    pub(crate) fn note<T>(&self, kind: Kind, begin: Instant, result: Result<T, Failure>) -> Option<T> {
        let now = Instant::now();
        let (time, index) = (now - begin, self.span.index(now));
        self.with(|state| {
            let requests = index.map(|index| state.minutes[index].entry(kind).or_default());
            match result {
                Ok(value) => {
                    if let Some(requests) = requests {
                        requests.times.push(time);
                    }
                    Some(value)
                }
                Err(failure) => {
                    if let Some(requests) = requests {
                        requests.failures += 1;
                    }
                    state.failed += 1;
                    if state.failures.len() < MAX_PRINTED_FAILURES {
                        state.failures.push(format!("{} after {:.1} s: {failure}", kind.name(), time.as_secs_f64()));
                    }
                    None
                }
            }
        })
    }

    /// Whether clients should stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Records the time of plain git during the load.
    pub(crate) fn note_plain(&self, kind: Kind, time: Duration) {
        self.with(|state| state.plain.entry(kind).or_default().push(time));
    }

    /// Median of plain git during the load, in milliseconds.
    pub(crate) fn plain_median_ms(&self, kind: Kind) -> f64 {
        let mut times = self.with(|state| state.plain.get(&kind).cloned().unwrap_or_default());
        times.sort_unstable();
        percentile_ms(&times, 50)
    }

    /// Records a commit that was acknowledged as the newest one of a branch.
    pub(crate) fn acknowledge(&self, branch: Branch, commit: String) {
        self.with(|state| state.acknowledged.entry(branch).or_default().push(commit));
    }

    /// Records how late a scheduled write started.
    pub(crate) fn note_lateness(&self, lateness: Duration) {
        self.with(|state| {
            state.scheduled += 1;
            state.late += usize::from(lateness > LATE_AFTER);
            state.latest = state.latest.max(lateness);
        });
    }

    /// Requests of a minute that is over.
    pub(crate) fn minute(&self, index: usize) -> Minute {
        let mut minute = self.with(|state| state.minutes[index].clone());
        minute.values_mut().for_each(|requests| requests.times.sort_unstable());
        minute
    }

    /// Acknowledged commits by branch.
    pub(crate) fn acknowledged(&self) -> BTreeMap<Branch, Vec<String>> {
        self.with(|state| state.acknowledged.clone())
    }

    /// Prints failures and scheduled writes, and returns the number of failed requests.
    pub(crate) fn print_failures(&self) -> usize {
        self.with(|state| {
            println!("\nfailed requests: {}", state.failed);
            for failure in &state.failures {
                println!("  {failure}");
            }
            if state.scheduled > 0 {
                let latest = state.latest.as_secs_f64();
                println!(
                    "scheduled writes: {}, of these {} late; the latest by {latest:.1} s",
                    state.scheduled, state.late
                );
            }
            state.failed
        })
    }
}

/// Prints the table of a minute.
pub(crate) fn print(minute: &Minute) {
    println!("| kind | requests | p50 ms | p95 ms | p99 ms | max ms | failures |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (kind, requests) in minute {
        let at = |percent| percentile_ms(&requests.times, percent);
        let (name, count, failures) = (kind.name(), requests.times.len(), requests.failures);
        println!("| {name} | {count} | {:.1} | {:.1} | {:.1} | {:.1} | {failures} |", at(50), at(95), at(99), at(100));
    }
}
