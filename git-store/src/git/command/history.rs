//! Blames, and histories of files over renames. Both compare versions of files, and have the
//! settings and limits of diffs.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, process::Stdio};

use git2::Oid;

use super::{Git, GitChild};
use crate::types::{error::GitError, path::TreePath};

/// Prints paths as they are if they have no control characters and quotes, and applies no
/// `.mailmap`.
const SETTINGS: [&str; 2] = ["core.quotePath=false", "mailmap.blob="];

impl Git {
    /// Starts `blame`, which prints ranges of lines of a file with the commits that last changed
    /// them, as it finds them.
    pub fn blame(&self, repository: &Path, commit: Oid, file: &TreePath) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.args(["blame", "--incremental", "--no-textconv"]).arg(commit.to_string());
        // The only text of clients in arguments: git reads no path to blame from its input.
        command.arg("--").arg(OsStr::from_bytes(file.as_bytes()));
        self.spawn_diff("blame", command.stdin(Stdio::null()))
    }

    /// Starts `log --follow`, which prints up to `count` commits that changed a file, also under
    /// its former names. Standard input is `<id>\n--\n<path>\n`.
    ///
    /// There is no number to skip: git would skip all commits, not those of the file.
    pub fn follow_file(&self, repository: &Path, count: usize) -> Result<GitChild, GitError> {
        let mut command = self.diff_command(repository);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.env("GIT_LITERAL_PATHSPECS", "1").args(["log", "--follow", "--no-mailmap", "--format=%H"]);
        self.spawn_diff("log", command.arg(format!("--max-count={count}")).arg("--stdin"))
    }
}
