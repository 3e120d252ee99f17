//! The rows of the table, in groups that are measured together.

mod archives;
mod calls;
mod crowds;
mod fetches;
mod inside;
mod pushes;
mod reads;
mod writes;

use std::path::Path;

use clap::ValueEnum;

use crate::Failure;
use crate::report::Row;
use crate::site::Site;

/// The repository that many pushes go to.
pub(crate) const WORN: &str = "worn";
/// The repository with many branches.
pub(crate) const MANY: &str = "many";

/// The repository with a tree of so many files.
pub(crate) fn tree(files: u32) -> String {
    format!("tree-{files}")
}

/// Rows that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// Clones, new ones and the same again.
    Clone,
    /// Fetches that bring nothing.
    Fetch,
    /// Pushes of 1 and of 50 commits.
    Push,
    /// git-svc's memory while a large push comes in.
    PushMemory,
    /// A file by its path.
    Blob,
    /// The first page of the log.
    Log,
    /// The first page of very many branches.
    Branches,
    /// tar.gz and zip files.
    Archive,
    /// A commit by the API.
    Put,
    /// The same in trees of different sizes.
    PutSizes,
    /// Small calls while others read slowly.
    SlowReaders,
    /// A clone of a repository that was pushed to very often.
    AfterPushes,
    /// Very many clones at once.
    Parallel,
    /// git-svc's memory while many clone.
    CloneMemory,
    /// Crashes: measured elsewhere.
    Crashes,
}

impl Group {
    /// In the order of the design, but memory first: packs that reads have mapped stay mapped for some time, and count.
    pub(crate) const ALL: [Self; 15] = [
        Self::Clone,
        Self::Fetch,
        Self::Push,
        Self::PushMemory,
        Self::CloneMemory,
        Self::Blob,
        Self::Log,
        Self::Branches,
        Self::Archive,
        Self::Put,
        Self::PutSizes,
        Self::SlowReaders,
        Self::AfterPushes,
        Self::Parallel,
        Self::Crashes,
    ];

    /// Measures the group's rows.
    pub(crate) async fn measure(self, site: &Site, cache: &Path) -> Result<Vec<Row>, Failure> {
        match self {
            Self::Clone => fetches::clones(site).await,
            Self::Fetch => fetches::nothing_new(site).await,
            Self::Push => pushes::pushes(site).await,
            Self::PushMemory => pushes::memory(site, cache).await,
            Self::Blob => reads::blob(site).await,
            Self::Log => reads::log(site).await,
            Self::Branches => reads::branches(site).await,
            Self::Archive => archives::archives(site).await,
            Self::Put => writes::put(site).await,
            Self::PutSizes => writes::sizes(site).await,
            Self::SlowReaders => crowds::slow_readers(site).await,
            Self::AfterPushes => pushes::worn(site).await,
            Self::Parallel => crowds::parallel(site).await,
            Self::CloneMemory => crowds::memory(site).await,
            Self::Crashes => Ok(vec![crashes()]),
        }
    }
}

/// A promise that either holds or does not.
fn crashes() -> Row {
    let test = "see the test: `tests/servers.sh cargo test --test blackbox -- crashes`".to_owned();
    Row::plain("kill -9 in the middle of writes, clients cut in the middle", test, "-", "-")
}
