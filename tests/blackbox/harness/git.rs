//! The real git program in a temporary folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A folder for git, without system or user configuration.
pub(crate) struct Git {
    folder: tempfile::TempDir,
    version: Option<u8>,
    ssh: Option<String>,
}

impl Git {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir_in(super::servers::folder()).unwrap(), version: None, ssh: None }
    }

    /// An empty folder in which git uses this protocol version.
    pub(crate) fn speaking(version: u8) -> Self {
        Self { version: Some(version), ..Self::new() }
    }

    pub(crate) fn set_ssh(&mut self, command: String) {
        self.ssh = Some(command);
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
        command.env_clear().env("PATH", path).env("HOME", self.path()).env("LC_ALL", "C");
        command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_ASKPASS", "true")]);
        command.envs([("GIT_AUTHOR_NAME", "Tester"), ("GIT_AUTHOR_EMAIL", "tester@example.com")]);
        command.envs([("GIT_COMMITTER_NAME", "Tester"), ("GIT_COMMITTER_EMAIL", "tester@example.com")]);
        command.args(["-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false", "-c", "gc.auto=0"]);
        command.args(["-c", "protocol.file.allow=always"]);
        if let Some(version) = self.version {
            command.args(["-c", &format!("protocol.version={version}")]);
        }
        if let Some(ssh) = &self.ssh {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        command.args(arguments).current_dir(self.path().join(folder)).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn attempt(&self, folder: &str, arguments: &[&str]) -> Output {
        self.command(folder, arguments).output().await.unwrap()
    }

    /// Runs git, which must succeed, and returns its standard output.
    pub(crate) async fn run(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.attempt(folder, arguments).await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {}\n{stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs git, which must fail, and returns its standard error.
    pub(crate) async fn fails(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.attempt(folder, arguments).await;
        assert!(!output.status.success(), "git {arguments:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Creates a work tree with one commit on `main` and returns its path.
    pub(crate) async fn small(&self, name: &str) -> PathBuf {
        self.run("", &["init", "-q", name]).await;
        self.commit(name, "README.md", "# small\n").await;
        self.path().join(name)
    }

    pub(crate) async fn commit(&self, folder: &str, file: &str, content: &str) -> String {
        let path = self.path().join(folder).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self.run(folder, &["add", "-A"]).await;
        self.run(folder, &["commit", "-q", "-m", &format!("Change {file}")]).await;
        self.run(folder, &["rev-parse", "HEAD"]).await
    }

    /// Creates a realistic bare repository: many commits, merges, branches with slashes,
    /// lightweight and annotated tags, files of several kinds.
    pub(crate) async fn large(&self, name: &str, commits: u32) -> PathBuf {
        self.run("", &["init", "-q", "--bare", name]).await;
        let mut import = self.command(name, &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(history(commits).as_bytes()).await.unwrap();
        let done = import.wait_with_output().await.unwrap();
        assert!(done.status.success(), "{done:?}");
        self.path().join(name)
    }

    pub(crate) async fn refs(&self, folder: &str) -> String {
        self.run(folder, &["for-each-ref", "--format=%(refname) %(objectname)"]).await
    }
}

/// Input for `git fast-import`.
fn history(commits: u32) -> String {
    let mut text = String::new();
    for number in 1..=commits {
        let branch = match number % 40 {
            11..=14 => "feature/one",
            25..=27 => "fix/other",
            _ => "main",
        };
        let message = format!("Commit {number}\n\nWhat it is for: <{number}> & more.\n");
        let time = 1_600_000_000 + number * 60;
        writeln!(text, "commit refs/heads/{branch}\nmark :{number}").unwrap();
        writeln!(text, "author Ada Ex\u{e4}mple <ada@example.com> {time} +0200").unwrap();
        writeln!(text, "committer Bob <bob@example.com> {time} -0500").unwrap();
        writeln!(text, "data {}\n{message}", message.len()).unwrap();
        if number % 40 == 11 || number % 40 == 25 {
            writeln!(text, "from :{}", number - 1).unwrap();
        } else if number % 40 == 16 {
            writeln!(text, "merge :{}", number - 2).unwrap();
        }
        let body = format!("line {number}\n").repeat(usize::try_from(number % 50).unwrap() + 1);
        writeln!(text, "M 100644 inline dir-{}/file-{}.txt\ndata {}\n{body}", number % 7, number % 31, body.len())
            .unwrap();
        if number == 1 {
            text.push_str("M 100755 inline run.sh\ndata 10\n#!/bin/sh\n\nM 120000 inline link\ndata 6\nrun.sh\n");
            text.push_str("M 100644 inline bytes.bin\ndata 4\na\u{0}b\n\n");
        }
        if number % 100 == 0 {
            writeln!(text, "reset refs/tags/light-{number}\nfrom :{number}\n").unwrap();
            writeln!(text, "tag v{number}\nfrom :{number}\ntagger Bob <bob@example.com> {time} +0000").unwrap();
            writeln!(text, "data 8\nRelease\n").unwrap();
        }
    }
    text
}
