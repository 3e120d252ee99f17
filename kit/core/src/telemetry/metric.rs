//! What a metric is: its name, kind, labels and help text. Not here: the tables of metrics, which each crate has.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// The distribution of a duration.
    Histogram,
}

/// A metric of a process. `docs/metrics.md` has a row for each.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in `/metrics`.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Names of its labels. A metric without labels is there from the start of the process.
    pub labels: &'static [&'static str],
    /// Text of `# HELP`.
    pub help: &'static str,
}

impl Metric {
    /// Returns a counter.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Counter, labels, help }
    }

    /// Returns a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Gauge, labels, help }
    }

    /// Returns a distribution of durations.
    #[must_use]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Histogram, labels, help }
    }
}
