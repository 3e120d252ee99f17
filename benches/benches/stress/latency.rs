//! Times of requests by kind, and failed requests.

use std::collections::BTreeMap;
use std::time::Duration;

use ferrite_benches::percentile_ms;

/// Failures printed in full.
const MAX_PRINTED_FAILURES: usize = 10;

/// The requests of a client.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    times: BTreeMap<&'static str, Vec<Duration>>,
    failures: Vec<String>,
}

impl Seen {
    /// Records the time of a request, or its failure.
    pub(crate) fn note(&mut self, kind: &'static str, time: Duration, failure: Option<String>) {
        self.times.entry(kind).or_default().push(time);
        if let Some(failure) = failure {
            self.failures.push(format!("{kind} after {:.1} s: {failure}", time.as_secs_f64()));
        }
    }

    /// Prints a table by kind and in total, and the failures.
    pub(crate) fn print(&self) {
        println!("| honest client | requests | p50 ms | p95 ms | p99 ms | max ms |");
        println!("|---|---:|---:|---:|---:|---:|");
        for (kind, times) in &self.times {
            print_row(kind, times.clone());
        }
        print_row("all", self.times.values().flatten().copied().collect());
        println!("failed requests of the honest client: {}", self.failures.len());
        for failure in self.failures.iter().take(MAX_PRINTED_FAILURES) {
            println!("  {failure}");
        }
    }
}

fn print_row(kind: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| percentile_ms(&times, percent);
    println!("| {kind} | {} | {:.1} | {:.1} | {:.1} | {:.1} |", times.len(), at(50), at(95), at(99), at(100));
}
