//! Shapes of the load: numbers of repositories and clients.

use std::time::Duration;

use clap::ValueEnum;

/// Interval between writes to one repository in a test of the bench.
const MAX_TEST_INTERVAL: Duration = Duration::from_millis(500);

/// A shape of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// All kinds of clients on 4 repositories, each at full speed.
    Mixed,
    /// The same on one repository.
    One,
    /// A write to each of 200 repositories every few seconds, with clients that clone and read.
    Many,
}

/// The numbers of a shape.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) repositories: usize,
    /// Commits and files of the initial history.
    pub(crate) commits: u64,
    pub(crate) files: u64,
    /// Clients that continue as soon as they get a response.
    pub(crate) writers: usize,
    pub(crate) pushers: usize,
    pub(crate) cloners: usize,
    pub(crate) readers: usize,
    pub(crate) creators: usize,
    /// Clients that write on a schedule, and the interval between writes to one repository.
    pub(crate) scheduled: usize,
    pub(crate) interval: Duration,
}

impl Shape {
    pub(crate) const ALL: [Self; 3] = [Self::Mixed, Self::One, Self::Many];

    /// Returns the load of this shape; a small one unless `is_full`.
    pub(crate) fn load(self, is_full: bool, interval: Duration) -> Load {
        let is_many = self == Self::Many;
        let closed = usize::from(!is_many);
        let repositories = match self {
            Self::Mixed => 4,
            Self::One => 1,
            Self::Many => 200,
        };
        // Pushing the long history two hundred times would take longer than the measurement.
        let (commits, files) = if is_many { (200, 100) } else { (2_000, 300) };
        let load = Load {
            repositories,
            commits,
            files,
            writers: 2 * closed,
            pushers: 2 * closed,
            cloners: 2,
            readers: 3,
            creators: closed,
            scheduled: if is_many { 8 } else { 0 },
            interval,
        };
        let test_interval = interval.min(MAX_TEST_INTERVAL);
        let small =
            Load { repositories: repositories.min(4), commits: 30, files: 20, interval: test_interval, ..load.clone() };
        if is_full { load } else { small }
    }
}
