//! Commands of git that combine packs and loose objects into one pack, in steps: the caller moves the pack into place and removes what is
//! in it. A process that outlives the service changes nothing in the repository.
//!
//! Not here: which packs are combined (`maintenance`).

use std::{path::Path, process::Stdio};

use super::{Git, GitChild, maintenance_task::set_niceness, option};
use crate::types::error::GitError;

impl Git {
    /// Starts `pack-objects`, which writes to the folder `output` one pack of all loose objects and of the packs that are named on its
    /// standard input, one a line (`<name>.pack`), without the objects of packs that are named after `^`. Deltas are copied; new ones are
    /// searched for among loose objects and whole objects of different packs.
    pub fn combine_packs(&self, repository: &Path, output: &Path, niceness: i32) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        // One thread: consolidations of several repositories share the processors.
        command.args(["-c", "pack.threads=1"]).arg(option("--git-dir", repository));
        command.args(["pack-objects", "--stdin-packs", "--unpacked", "--local", "--delta-base-offset"]);
        command.args(["--non-empty", "-q"]).arg(output.join("pack"));
        let child = self.spawn("pack-objects", &mut command)?;
        set_niceness(&child, niceness);
        Ok(child)
    }

    /// Starts `prune-packed --dry-run`, which lists the loose objects that are in packs, as `rm -f <path>`.
    pub fn list_packed_loose(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["prune-packed", "--dry-run"]).stdin(Stdio::null());
        self.spawn("prune-packed", &mut command)
    }
}
