//! The rows of the table, in groups that are measured together.

mod archives;
mod calls;
mod concurrency;
mod diffs;
mod fetches;
mod inside;
mod pushes;
mod reads;
mod writes;

use std::path::Path;

use clap::ValueEnum;
use ferrite_benches::Failure;

use crate::report::Row;
use crate::servers::Servers;

pub(crate) const OFTEN_PUSHED: &str = "often-pushed";
pub(crate) const MANY_REFS: &str = "many-refs";

/// Name of the repository with this many files.
pub(crate) fn tree(files: u32) -> String {
    format!("tree-{files}")
}

/// Rows that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Clones that need a new pack, and cached ones.
    Clone,
    /// Fetches with nothing new.
    Fetch,
    /// Pushes of 1 and of 50 commits.
    Push,
    /// git-svc's memory during a large push.
    PushMemory,
    /// A file by its path.
    Blob,
    /// The first page of the log.
    Log,
    /// Comparisons, and commits with what they changed.
    Diff,
    /// The first page of many branches.
    Branches,
    /// tar.gz and zip files.
    Archive,
    /// A commit through the API.
    Put,
    /// Commits through the API in trees of different sizes.
    PutSizes,
    /// Small calls while other clients read slowly.
    SlowReaders,
    /// A clone of a repository after many pushes.
    AfterPushes,
    /// Many concurrent clones.
    Parallel,
    /// git-svc's memory during many clones.
    CloneMemory,
    /// Crashes, which are tested elsewhere.
    Crashes,
}

impl Group {
    /// In the order of the design, but memory first: packs stay mapped for some time after a read
    /// and count as memory.
    pub(crate) const ALL: [Self; 16] = [
        Self::Clone,
        Self::Fetch,
        Self::Push,
        Self::PushMemory,
        Self::CloneMemory,
        Self::Blob,
        Self::Log,
        Self::Diff,
        Self::Branches,
        Self::Archive,
        Self::Put,
        Self::PutSizes,
        Self::SlowReaders,
        Self::AfterPushes,
        Self::Parallel,
        Self::Crashes,
    ];

    pub(crate) async fn measure(self, servers: &Servers, cache: &Path) -> Result<Vec<Row>, Failure> {
        match self {
            Self::Clone => fetches::clones(servers).await,
            Self::Fetch => fetches::nothing_new(servers).await,
            Self::Push => pushes::pushes(servers).await,
            Self::PushMemory => pushes::memory(servers, cache).await,
            Self::Blob => reads::blob(servers).await,
            Self::Log => reads::log(servers).await,
            Self::Diff => diffs::diffs(servers).await,
            Self::Branches => reads::branches(servers).await,
            Self::Archive => archives::archives(servers).await,
            Self::Put => writes::put(servers).await,
            Self::PutSizes => writes::sizes(servers).await,
            Self::SlowReaders => concurrency::slow_readers(servers).await,
            Self::AfterPushes => pushes::after_pushes(servers).await,
            Self::Parallel => concurrency::parallel(servers).await,
            Self::CloneMemory => concurrency::memory(servers).await,
            Self::Crashes => Ok(vec![crashes()]),
        }
    }
}

/// A promise without a measurement.
fn crashes() -> Row {
    let test = "see the test: `tests/servers.sh cargo test --test blackbox -- crashes`".to_owned();
    Row::plain("kill -9 in the middle of writes, clients cut in the middle", test, "-", "-")
}
