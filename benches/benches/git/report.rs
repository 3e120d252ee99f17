//! Measurements and the table of results.

use std::time::Duration;

use ferrite_benches::memory::Private;
use ferrite_benches::percentile_ms;

/// Wall time of an action, and the server's CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<Sample>);

impl Series {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Median wall time in milliseconds.
    pub(crate) fn wall(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.wall))
    }

    /// Median CPU time in milliseconds.
    pub(crate) fn cpu(&self) -> f64 {
        median(self.0.iter().map(|sample| sample.cpu))
    }

    /// Mean CPU time in milliseconds, for actions shorter than the kernel's clock tick.
    pub(crate) fn mean_cpu(&self) -> f64 {
        let sum: Duration = self.0.iter().map(|sample| sample.cpu).sum();
        ms(sum) / f64::from(u32::try_from(self.0.len().max(1)).unwrap_or(u32::MAX))
    }

    /// Divides each sample by its number of parts.
    pub(crate) fn divided(&self, parts: u32) -> Self {
        let parts = parts.max(1);
        Self(self.0.iter().map(|sample| Sample { wall: sample.wall / parts, cpu: sample.cpu / parts }).collect())
    }
}

/// In milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Median in milliseconds.
pub(crate) fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    percentile_ms(&times, 50)
}

/// A value to compare, and its text.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    value: f64,
    text: String,
}

impl Figure {
    /// A time in milliseconds, with `text` before it.
    pub(crate) fn ms(value: f64, text: &str) -> Self {
        Self { value, text: format!("{text}{} ms", digits(value)) }
    }

    /// Prepends `text`.
    pub(crate) fn after(self, text: &str) -> Self {
        Self { text: format!("{text}{}", self.text), ..self }
    }

    /// Appends `text`.
    pub(crate) fn with(self, text: &str) -> Self {
        Self { text: format!("{}{text}", self.text), ..self }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    case: String,
    ours: String,
    git: String,
    value: String,
    bar: String,
    verdict: &'static str,
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "MISSES" }
}

impl Row {
    /// A row whose bar is a ratio of Ferrite to git: lower is better.
    pub(crate) fn ratio(case: &str, ours: &Figure, git: &Figure, bar: f64) -> Self {
        let holds = ours.value <= bar * git.value;
        let row = Self::compared(case, ours, git);
        Self { bar: format!("<= {bar}x"), verdict: verdict(holds), ..row }
    }

    /// A row with a ratio, but without a bar.
    pub(crate) fn compared(case: &str, ours: &Figure, git: &Figure) -> Self {
        let value = if git.value > 0.0 { format!("{}x", digits(ours.value / git.value)) } else { "-".to_owned() };
        Self::plain(case, ours.text.clone(), &git.text, &value)
    }

    /// A row with a different kind of bar.
    pub(crate) fn limit(case: &str, ours: String, value: String, bar: &str, holds: bool) -> Self {
        Self { case: case.to_owned(), ours, git: "-".into(), value, bar: bar.to_owned(), verdict: verdict(holds) }
    }

    /// A row without ratio and bar.
    pub(crate) fn plain(case: &str, ours: String, git: &str, value: &str) -> Self {
        Self {
            case: case.to_owned(),
            ours,
            git: git.to_owned(),
            value: value.to_owned(),
            bar: "-".into(),
            verdict: "-",
        }
    }

    /// A row for a failed action.
    pub(crate) fn failed(case: &str, why: &str) -> Self {
        let mut row = Self::plain(case, "-".into(), "-", "-");
        row.ours = format!("failed: {}", why.lines().next().unwrap_or_default().replace('|', "/"));
        row.verdict = "MISSES";
        row
    }
}

/// Three decimals, or fewer for large numbers.
pub(crate) fn digits(number: f64) -> String {
    match number {
        _ if number >= 100.0 => format!("{number:.0}"),
        _ if number >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Median wall time, with the CPU time in its text.
pub(crate) fn wall(series: &Series) -> Figure {
    let text = format!("{} ms (CPU {} ms), n={}", digits(series.wall()), digits(series.cpu()), series.len());
    Figure { value: series.wall(), text }
}

/// Median CPU time, with the wall time in its text.
pub(crate) fn cpu(series: &Series) -> Figure {
    let text = format!("CPU {} ms ({} ms), n={}", digits(series.cpu()), digits(series.wall()), series.len());
    Figure { value: series.cpu(), text }
}

/// Like [`cpu`] with the mean, for short actions.
pub(crate) fn mean_cpu(series: &Series) -> Figure {
    let text = format!("CPU {} ms ({} ms), n={}", digits(series.mean_cpu()), digits(series.wall()), series.len());
    Figure { value: series.mean_cpu(), text }
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Private memory, and the part that is not backed by files.
pub(crate) fn shown(private: Private) -> String {
    format!("{} MiB ({} dirty)", digits(mib(private.all)), digits(mib(private.dirty)))
}

pub(crate) fn head() {
    println!("| case | ours | plain git | ratio | bar | verdict |");
    println!("|------|------|-----------|-------|-----|---------|");
}

pub(crate) fn print(row: &Row) {
    let Row { case, ours, git, value, bar, verdict } = row;
    println!("| {case} | {ours} | {git} | {value} | {bar} | {verdict} |");
}
