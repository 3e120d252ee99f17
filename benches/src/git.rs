//! The git program as a client runs it, without system or user configuration.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::Failure;

/// Lines of standard error in a failure.
const MAX_ERROR_LINES: usize = 8;

/// Passes the environment of every git process to `set`.
pub fn settings(mut set: impl FnMut(&str, &str)) {
    let both = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "true"),
        ("GIT_AUTHOR_NAME", "Bench"),
        ("GIT_AUTHOR_EMAIL", "bench@example.com"),
        ("GIT_COMMITTER_NAME", "Bench"),
        ("GIT_COMMITTER_EMAIL", "bench@example.com"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_KEY_0", "gc.auto"),
        ("GIT_CONFIG_VALUE_0", "0"),
        ("GIT_CONFIG_KEY_1", "maintenance.auto"),
        ("GIT_CONFIG_VALUE_1", "false"),
        ("GIT_CONFIG_KEY_2", "safe.directory"),
        ("GIT_CONFIG_VALUE_2", "*"),
    ];
    both.iter().for_each(|(name, value)| set(name, value));
}

/// A `git` command in a folder.
pub fn git<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Command {
    let mut command = Command::new("git");
    settings(|name, value| {
        command.env(name, value);
    });
    command.args(arguments).current_dir(folder).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs git, which must succeed, and returns its standard output.
pub async fn run<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Result<Vec<u8>, Failure> {
    finish(git(folder, arguments)).await
}

/// Like [`run`], as text without the final newline.
pub async fn text<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&run(folder, arguments).await?).trim_end().to_owned())
}

/// Runs a command, which must succeed, and returns its standard output.
pub async fn finish(mut command: Command) -> Result<Vec<u8>, Failure> {
    let output = command.output().await?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let arguments: Vec<_> =
        command.as_std().get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The reasons are in the last lines; a push of many refs prints many.
    let lines: Vec<_> = stderr.lines().rev().take(MAX_ERROR_LINES).collect();
    let lines: Vec<_> = lines.into_iter().rev().collect();
    Err(format!("git {}: {}\n{}", arguments.join(" "), output.status, lines.join("\n")).into())
}
