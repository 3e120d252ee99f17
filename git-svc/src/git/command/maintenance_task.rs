//! git's own upkeep, one process per chore, with little weight against those that serve somebody.

use std::{ffi::OsString, fs::File, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, setpriority_pgrp};

use super::{Git, GitChild, option};
use crate::types::error::GitError;

/// How nice it is to others. Linux takes the weight for the disk from this as well, where a process was given none: here the lowest of
/// the usual ones.
const NICENESS: i32 = 15;

/// One thing to do to a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceTask<'a> {
    /// Packs loose objects that are in use.
    PackLoose,
    /// Packs loose objects and small packs, so that sizes grow geometrically; writes one index and one bitmap over all packs.
    Geometric,
    /// Packs everything anew. What nothing refers to goes into a pack of its own, and from there to the folder `expired` when it was
    /// not touched for `expire`.
    Full {
        /// How long it stays.
        expire: Duration,
        /// Where it goes.
        expired: &'a Path,
    },
    /// Writes the commit-graph, in the one form that libgit2 can read.
    CommitGraph,
    /// Looks whether all objects are there that refs lead to, without reading files.
    Check,
    /// Moves all refs to one file. The caller holds the repository's write lock.
    PackRefs,
}

impl MaintenanceTask<'_> {
    /// The subcommand.
    fn name(self) -> &'static str {
        match self {
            Self::PackLoose | Self::Geometric | Self::Full { .. } => "repack",
            Self::CommitGraph => "commit-graph",
            Self::Check => "fsck",
            Self::PackRefs => "pack-refs",
        }
    }

    fn args(self) -> Vec<OsString> {
        let args: &[&str] = match self {
            Self::PackLoose => &["repack", "-d", "-l", "-n", "-q"],
            Self::Geometric => {
                &["repack", "--geometric=2", "-d", "-l", "-n", "-q", "--write-midx", "--write-bitmap-index"]
            }
            Self::Full { .. } => &["repack", "--cruft", "-d", "-l", "-n", "-q", "--write-midx", "--write-bitmap-index"],
            Self::CommitGraph => &["commit-graph", "write", "--reachable", "--changed-paths", "--no-progress"],
            Self::Check => &["fsck", "--connectivity-only", "--no-dangling", "--no-progress"],
            Self::PackRefs => &["pack-refs", "--all"],
        };
        let mut args: Vec<OsString> = args.iter().map(Into::into).collect();
        if let Self::Full { expire, expired } = self {
            args.push(format!("--cruft-expiration={}.seconds.ago", expire.as_secs()).into());
            args.push(option("--expire-to", &expired.join("pack")));
        }
        args
    }
}

impl Git {
    /// Does a chore. `hold` is open in the process for as long as it runs: a lock on it outlives even this service.
    pub(crate) fn run_task(
        &self,
        repository: &Path,
        task: MaintenanceTask<'_>,
        lock: &File,
    ) -> Result<GitChild, GitError> {
        let lock = lock.try_clone().map_err(GitError::io("sharing a lock"))?;
        let mut command = self.command(repository);
        command.args(["-c", "commitGraph.generationVersion=1"]);
        command.arg(option("--git-dir", repository)).args(task.args()).stdin(Stdio::from(lock));
        let child = self.spawn(task.name(), &mut command)?;
        if let Some(leader) = child.id().and_then(Pid::from_raw) {
            // It may have ended already; without less weight it is only less polite.
            let _ = setpriority_pgrp(Some(leader), NICENESS);
        }
        Ok(child)
    }
}
