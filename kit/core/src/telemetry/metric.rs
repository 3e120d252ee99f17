//! Describes a metric: name, kind, labels and help text. Each crate has a table of its metrics.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A distribution of durations.
    Histogram,
}

/// A metric. `docs/metrics.md` has a row for each.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in `/metrics`.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// Names of the labels. A metric without labels exists from the start of the process.
    pub labels: &'static [&'static str],
    /// The `# HELP` text.
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

    /// Returns a histogram of durations.
    #[must_use]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: MetricKind::Histogram, labels, help }
    }
}
