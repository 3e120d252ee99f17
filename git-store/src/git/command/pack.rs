//! The `pack-objects` processes that write into a file of the pack cache, or into another repository; and paths in settings and lists.
//!
//! Not here: the cache, and the checks of the arguments (`transfer::fetch`).

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
    /// Starts `pack-objects`, which writes a pack to the file `out`. The caller has checked `args`, which select the
    /// objects together with standard input.
    pub fn pack_objects(&self, repository: &Path, args: &[OsString], out: File) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(args).stdout(Stdio::from(out));
        self.spawn("pack-objects", &mut command)
    }

    /// Starts `pack-objects`, which writes one pack with its index into the object folder `objects`: the objects of `source` that the ids on
    /// its standard input reach. `source` is only read.
    ///
    /// Deltas are copied as they are and no new ones are searched for, so that the time is that of reading and writing.
    pub fn copy_objects(&self, source: &Path, objects: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(source);
        command.env("GIT_OBJECT_DIRECTORY", objects);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", listed(&source.join("objects")));
        command.arg(option("--git-dir", source));
        command.args(["pack-objects", "--revs", "--use-bitmap-index", "--delta-base-offset", "--window=0", "-q"]);
        self.spawn("pack-objects", command.arg(objects.join("pack/pack")))
    }
}

/// Quotes a path for a list of paths in the environment of git, where a colon ends one.
pub(super) fn listed(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            // A line break is no plain character in git's quotes.
            b'\n' => text.extend(b"\\n"),
            other => text.push(*other),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// Quotes a path for `sh`. A plain path is returned unchanged, so that git runs it without a shell.
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
