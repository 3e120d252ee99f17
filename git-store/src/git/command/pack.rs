//! `pack-objects` for the pack cache and for copies, and quoting of paths for git.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
    process::Stdio,
};

use super::{Git, GitChild, option};
use crate::types::error::GitError;

impl Git {
    /// Starts `pack-objects`, which writes a pack to the file `out`. `args`, already checked by the
    /// caller, and standard input select the objects.
    pub fn pack_objects(&self, repository: &Path, args: &[OsString], out: File) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(args).stdout(Stdio::from(out));
        self.spawn("pack-objects", &mut command)
    }

    /// Starts `pack-objects`, which writes one pack with its index into the object folder
    /// `objects`. It holds the objects of `source` reachable from the ids on standard input.
    /// `source` is only read.
    ///
    /// It reuses deltas and looks for no new ones, so the time is that of reading and writing.
    pub fn copy_objects(&self, source: &Path, objects: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(source);
        command.env("GIT_OBJECT_DIRECTORY", objects);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed(&source.join("objects")));
        command.arg(option("--git-dir", source));
        command.args(["pack-objects", "--revs", "--use-bitmap-index", "--delta-base-offset", "--window=0", "-q"]);
        self.spawn("pack-objects", command.arg(objects.join("pack/pack")))
    }

    /// Starts `pack-objects`, which writes one pack with its index into the object folder `objects`,
    /// or none if there is nothing to write. It holds the objects of `source` reachable from the ids
    /// on standard input, but not from those with a `^`, which may be objects of `target`. The pack
    /// has no delta of an object outside of it. Both repositories are only read.
    pub fn copy_new_objects(&self, source: &Path, target: &Path, objects: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(source);
        command.env("GIT_OBJECT_DIRECTORY", objects);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed_objects(&[source, target]));
        command.arg(option("--git-dir", source));
        // No bitmaps: they would be computed for all ids with a `^`, of which the walk needs few.
        command.args(["pack-objects", "--revs", "--no-use-bitmap-index", "--delta-base-offset", "--window=0"]);
        command.args(["--non-empty", "-q"]);
        self.spawn("pack-objects", command.arg(objects.join("pack/pack")))
    }
}

/// Returns the object folders of repositories as git's list of alternates.
pub(super) fn listed_objects(repositories: &[&Path]) -> OsString {
    let folders: Vec<_> = repositories.iter().map(|repository| listed(&repository.join("objects"))).collect();
    folders.join(OsStr::new(":"))
}

/// Quotes a path for git's colon-separated lists in environment variables.
pub(super) fn listed(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            // git's quoting needs an escape for line breaks.
            b'\n' => text.extend(b"\\n"),
            other => text.push(*other),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// Quotes a path for `sh`. A plain path stays unchanged, so git runs it without a shell.
pub(super) fn quoted(path: &OsStr) -> OsString {
    let bytes = path.as_bytes();
    if bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,@:".contains(byte)) {
        return path.to_owned();
    }
    let mut text = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => text.extend(br"'\''"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_path_as_it_is() {
        assert_eq!(quoted(OsStr::new("/srv/git-1/x.y")), "/srv/git-1/x.y");
        for path in ["/a b", "/it's", "/$(touch x)`y`", "/a\nb;c", "/\"q\"&|<>*?~#", "/ü", "/''"] {
            let mut script = OsString::from("printf %s ");
            script.push(quoted(OsStr::new(path)));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(OsStr::from_bytes(&output.stdout), path);
        }
    }
}
