//! Maintenance commands of git, one process per task, at low CPU and disk priority. Not here: when a task is due
//! (`maintenance`).

use std::{ffi::OsString, fs::File, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, setpriority_pgrp};

use super::{Git, GitChild, option};
use crate::types::error::GitError;

/// The nice value of maintenance processes. Linux derives the I/O priority from it unless one is set: 15 gives the lowest
/// best-effort level, (15 + 20) / 5 = 7 (ioprio_set(2)).
pub(super) const NICENESS: i32 = 15;

/// One maintenance task of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceTask<'a> {
    /// Packs reachable loose objects.
    PackLoose,
    /// Packs loose objects and merges small packs, so that pack sizes grow geometrically; writes a multi-pack index and a
    /// bitmap.
    Geometric,
    /// Repacks everything. Unreachable objects go into a cruft pack, and those not modified for `expire` into the folder
    /// `expired`.
    Full {
        /// Minimum age of unreachable objects that are moved out of the repository.
        expire: Duration,
        /// The folder that gets the expired objects.
        expired: &'a Path,
    },
    /// Writes the commit-graph with generation numbers of version 1, the only form that libgit2 reads.
    CommitGraph,
    /// Checks that all objects reachable from refs exist, without reading file contents.
    Check,
    /// Packs all refs into `packed-refs`. The caller holds the repository's write lock.
    PackRefs,
}

impl MaintenanceTask<'_> {
    /// The git subcommand.
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
    /// Starts a task. `lock` becomes the standard input of the process, so a lock on that file is held as long as the
    /// process runs, even if this service ends first.
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
            // Fails if the process has ended; at normal priority the task still runs correctly.
            let _ = setpriority_pgrp(Some(leader), NICENESS);
        }
        Ok(child)
    }
}
