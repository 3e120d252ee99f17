use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    File,
    Issue,
    Read,
    Clone,
    Push,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    pub(crate) began: Instant,
    pub(crate) took: Duration,
    pub(crate) failed: Option<String>,
}

impl Sample {
    fn label(&self) -> String {
        format!("{:?}{}", self.kind, if self.failed.is_some() { "!" } else { "" })
    }

    fn ended(&self) -> Instant {
        self.began + self.took
    }
}

/// A disturbance: its name, its start, the removal of its cause, and the start of the next one.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) began: Instant,
    pub(crate) mended: Instant,
    pub(crate) ended: Instant,
}

impl Event {
    fn samples<'a>(&self, all: &'a [Sample]) -> Vec<&'a Sample> {
        all.iter().filter(|sample| sample.ended() >= self.began && sample.ended() < self.ended).collect()
    }

    /// Time from the removal of the cause to the end of the last failed attempt.
    pub(crate) fn recovery(&self, all: &[Sample]) -> Duration {
        let failed = self.samples(all).into_iter().filter(|sample| sample.failed.is_some());
        failed.map(|sample| sample.ended().saturating_duration_since(self.mended)).max().unwrap_or_default()
    }

    pub(crate) fn line(&self, all: &[Sample]) -> String {
        let samples = self.samples(all);
        let errors = samples.iter().filter(|sample| sample.failed.is_some()).count();
        let longest = samples.iter().max_by_key(|sample| sample.took);
        let (took, label) = longest.map_or_else(Default::default, |longest| (longest.took, longest.label()));
        format!(
            "{:28} {:>8} {:>7} {:>10.2} {label:6} {:>10.2}",
            self.name,
            samples.len(),
            errors,
            took.as_secs_f64(),
            self.recovery(all).as_secs_f64()
        )
    }

    pub(crate) fn head() -> String {
        format!("{:28} {:>8} {:>7} {:>10} {:6} {:>10}", "event", "requests", "errors", "longest s", "", "recovery s")
    }

    /// Failure texts during the event with their counts, the most frequent first.
    pub(crate) fn failures(&self, all: &[Sample]) -> Vec<(usize, String)> {
        let mut counts = BTreeMap::<String, usize>::new();
        for sample in self.samples(all) {
            if let Some(text) = &sample.failed {
                *counts
                    .entry(format!("{:?}: {}", sample.kind, text.chars().take(160).collect::<String>()))
                    .or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().map(|(text, count)| (count, text)).collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        counts
    }
}
