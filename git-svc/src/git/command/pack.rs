//! `upload-pack` with a `pack-objects` hook of ours, and the `pack-objects` process that writes into a file of the pack
//! cache.
//!
//! Not here: the cache, and the checks of the arguments (`transfer::fetch`).

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
    process::Stdio,
};

use ferrite_proto::git_transport::GitProtocol;

use super::{Exchange, Git, GitChild, option, set_protocol};
use crate::types::error::GitError;

impl Git {
    /// Starts `upload-pack`, which runs the program `hook` instead of `pack-objects` (`uploadpack.packObjectsHook`); `env`
    /// is the environment of the hook.
    pub(crate) fn serve_fetch(
        &self,
        repository: &Path,
        exchange: Exchange,
        protocol: Option<&GitProtocol>,
        hook: &Path,
        env: Vec<(&'static str, OsString)>,
    ) -> Result<GitChild, GitError> {
        let mut setting = OsString::from("uploadpack.packObjectsHook=");
        setting.push(quoted(hook.as_os_str()));
        let mut command = self.command(repository);
        command.arg("-c").arg(setting).envs(env);
        command.args(["upload-pack", "--strict"]).args(exchange.options());
        set_protocol(&mut command, protocol);
        self.spawn("upload-pack", command.arg(repository))
    }

    /// Starts `pack-objects`, which writes a pack to the file `out`. The caller has checked `args`, which select the
    /// objects together with standard input.
    pub(crate) fn pack_objects(&self, repository: &Path, args: &[OsString], out: File) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(args).stdout(Stdio::from(out));
        self.spawn("pack-objects", &mut command)
    }
}

/// Quotes a path for `sh`. A plain path is returned unchanged, so that git runs it without a shell.
fn quoted(path: &OsStr) -> OsString {
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
