//! Maintenance commands of git, one process per task, at low CPU and disk priority. Packs are
//! combined in two steps: git writes the new pack elsewhere, and the caller moves it into place and
//! removes the old ones. So a process that outlives the service changes nothing in the repository.

use std::{ffi::OsString, fs::File, path::Path, process::Stdio, time::Duration};

use rustix::process::setpriority_pgrp;

use super::{Git, GitChild, option};
use crate::types::error::GitError;

/// Nice value of maintenance processes. Linux derives the I/O priority from it: 15 gives the lowest
/// best-effort level, (15 + 20) / 5 = 7 (ioprio_set(2)).
pub const NICENESS: i32 = 15;

/// Nice value of the processes that rebuild a base: a third of the CPU share of a request. They
/// cost little per new object, and reads get slower while they wait.
pub const BASE_NICENESS: i32 = 5;

/// One maintenance task of a repository.
#[derive(Clone, Copy, Debug)]
pub enum MaintenanceTask<'a> {
    /// Writes the ids of all refs to a file, for [`MaintenanceTask::WriteIndex`].
    ListTips(&'a File),
    /// Writes a multi-pack index of the packs listed on standard input (`<name>.idx`, one per
    /// line), with a bitmap for the commits in `tips`. These packs must hold everything reachable
    /// from those commits.
    WriteIndex {
        /// File with the ids.
        tips: &'a Path,
        /// The pack preferred for objects in several packs, by the name of its index.
        preferred: &'a str,
    },
    /// Repacks everything into one pack with a bitmap. Unreachable objects go into a cruft pack;
    /// those not modified for `expire` go to the folder `expired`.
    Full {
        /// Age from which unreachable objects leave the repository.
        expire: Duration,
        /// Folder for expired objects.
        expired: &'a Path,
    },
    /// Writes the commit-graph with version 1 generation numbers, the only ones that libgit2 reads.
    CommitGraph,
    /// Checks that all objects reachable from refs exist, without reading file contents.
    Check,
    /// Packs all refs into `packed-refs`. The caller holds the repository's write lock.
    PackRefs,
}

impl MaintenanceTask<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::ListTips(_) => "for-each-ref",
            Self::WriteIndex { .. } => "multi-pack-index",
            Self::Full { .. } => "repack",
            Self::CommitGraph => "commit-graph",
            Self::Check => "fsck",
            Self::PackRefs => "pack-refs",
        }
    }

    fn args(self) -> Vec<OsString> {
        let args: &[&str] = match self {
            Self::ListTips(_) => &["for-each-ref", "--format=%(objectname)"],
            Self::WriteIndex { .. } => &["multi-pack-index", "write", "--bitmap", "--stdin-packs", "--no-progress"],
            // The bitmap marks the pack as a base; git writes it before the index.
            Self::Full { .. } => &["repack", "--cruft", "-d", "-l", "-n", "-q", "--write-bitmap-index"],
            Self::CommitGraph => &["commit-graph", "write", "--reachable", "--changed-paths", "--no-progress"],
            Self::Check => &["fsck", "--connectivity-only", "--no-dangling", "--no-progress"],
            Self::PackRefs => &["pack-refs", "--all"],
        };
        let mut args: Vec<OsString> = args.iter().map(Into::into).collect();
        match self {
            Self::Full { expire, expired } => {
                args.push(format!("--cruft-expiration={}.seconds.ago", expire.as_secs()).into());
                args.push(option("--expire-to", &expired.join("pack")));
            }
            Self::WriteIndex { tips, preferred } => {
                args.push(option("--refs-snapshot", tips));
                args.push(format!("--preferred-pack={preferred}").into());
            }
            Self::ListTips(_) | Self::CommitGraph | Self::Check | Self::PackRefs => {}
        }
        args
    }
}

impl Git {
    /// Starts a task with the nice value `niceness`. `lock` becomes an unused standard stream of
    /// the process, so the file stays locked until the process ends, even if this service ends
    /// first.
    pub fn run_task(
        &self,
        repository: &Path,
        task: MaintenanceTask<'_>,
        lock: &File,
        niceness: i32,
    ) -> Result<GitChild, GitError> {
        let shared = |file: &File| file.try_clone().map(Stdio::from).map_err(GitError::io("sharing a lock"));
        let mut command = self.command(repository);
        command.args(["-c", "commitGraph.generationVersion=1"]);
        if matches!(task, MaintenanceTask::Check) {
            // fsck also verifies the commit-graph, and reports dates that it cannot store as
            // damage.
            command.args(["-c", "core.commitGraph=false"]);
        }
        command.arg(option("--git-dir", repository)).args(task.args());
        match task {
            MaintenanceTask::WriteIndex { .. } => command.stdout(shared(lock)?),
            MaintenanceTask::ListTips(file) => command.stdin(shared(lock)?).stdout(shared(file)?),
            MaintenanceTask::Full { .. }
            | MaintenanceTask::CommitGraph
            | MaintenanceTask::Check
            | MaintenanceTask::PackRefs => command.stdin(shared(lock)?),
        };
        let child = self.spawn(task.name(), &mut command)?;
        set_niceness(&child, niceness);
        Ok(child)
    }

    /// Starts `pack-objects`, which writes one pack to the folder `output`: all loose objects and
    /// the packs listed on standard input (`<name>.pack`, one per line), without objects of packs
    /// listed with `^`. It copies deltas, and looks for new ones among loose objects and whole
    /// objects of different packs.
    pub fn combine_packs(&self, repository: &Path, output: &Path, niceness: i32) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        // One thread: other repositories are consolidated at the same time.
        command.args(["-c", "pack.threads=1"]).arg(option("--git-dir", repository));
        command.args(["pack-objects", "--stdin-packs", "--unpacked", "--local", "--delta-base-offset"]);
        command.args(["--non-empty", "-q"]).arg(output.join("pack"));
        let child = self.spawn("pack-objects", &mut command)?;
        set_niceness(&child, niceness);
        Ok(child)
    }

    /// Starts `prune-packed --dry-run`, which lists packed loose objects as `rm -f <path>`.
    pub fn list_packed_loose(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["prune-packed", "--dry-run"]).stdin(Stdio::null());
        self.spawn("prune-packed", &mut command)
    }
}

/// Sets the nice value of a process and its children; 0 leaves it unchanged.
pub(super) fn set_niceness(child: &GitChild, niceness: i32) {
    if niceness != 0
        && let Some(leader) = child.id()
    {
        // Fails if the process has ended. At normal priority the task still runs correctly.
        let _ = setpriority_pgrp(Some(leader), niceness);
    }
}
