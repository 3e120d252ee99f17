//! Runs git: constant arguments, a fixed environment, and processes that are ended and reaped in every case. No text of a
//! client reaches the arguments: those are constants, object ids, and paths made from repository ids.

mod capabilities;
pub(crate) mod fetch;
pub(crate) mod maintenance_task;
mod pack;
mod reaper;

use std::{
    ffi::OsString,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use ferrite_proto::git_transport::GitProtocol;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::OnceCell,
};

use self::reaper::Reaper;
use crate::types::{
    archive::{Format, Prefix},
    error::GitError,
};

/// The oldest supported git, as major and minor version.
const MIN_VERSION: (u32, u32) = (2, 41);

/// The `PATH` of git processes, and the folders searched for git. No variable of the service's environment is passed on.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Bytes kept of a process's standard error, and of its standard output by [`GitChild::finish`]; the rest is discarded.
pub(crate) const MAX_STDERR_BYTES: u64 = 16 << 10;
const MAX_STDOUT_BYTES: u64 = 1 << 20;

/// The largest allocation of a process that receives a pack: the sender declares the size of each object. Files above
/// `core.bigFileThreshold` are never in memory as a whole.
const MAX_ALLOCATION: &str = "1g";

/// Bytes that a pipe to or from a process holds: with the usual 64 KiB both sides mostly wait for each other.
const PIPE_BYTES: usize = 1 << 20;

/// Settings of every process.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.logAllRefUpdates=false",
    "core.useReplaceRefs=false",
    "gc.auto=0",
    // `export-subst` in `.gitattributes` can make `git archive` verify signatures: no program is run for that.
    "gpg.program=/bin/false",
    "gpg.ssh.program=/bin/false",
    "gpg.x509.program=/bin/false",
    "maintenance.auto=false",
    "pack.allowPackReuse=multi",
    "protocol.allow=never",
    "receive.advertiseAtomic=true",
    "receive.advertisePushOptions=true",
    "receive.autogc=false",
    "receive.denyCurrentBranch=ignore",
    "receive.denyDeleteCurrent=ignore",
    "receive.fsck.badFilemode=error",
    "receive.fsckObjects=true",
    "receive.unpackLimit=1",
    "transfer.fsckObjects=true",
    "transfer.unpackLimit=1",
    "uploadpack.allowFilter=true",
    "uploadpack.allowReachableSHA1InWant=true",
    // Not `receive.hideRefs`, with which receive-pack rejects such refs before the hook: an atomic push would lose a
    // part.
    "uploadpack.hideRefs=refs/ferrite",
    "uploadpack.hideRefs=refs/pull",
    "uploadpack.hideRefs=refs/replace",
    "uploadpack.keepAlive=5",
];

/// Options of git processes.
#[derive(Clone, Debug)]
pub struct GitOptions {
    /// The git program; searched for in the usual folders when absent.
    pub program: Option<PathBuf>,
    /// Threads of one `pack-objects` process.
    pub pack_threads: usize,
    /// Bytes of the delta window of each of those threads.
    pub pack_window_bytes: u64,
    /// Bytes above which a file is not delta-compressed and is streamed instead of loaded.
    pub big_file_bytes: u64,
    /// The largest pack a push may send, in bytes.
    pub max_push_bytes: u64,
}

impl Default for GitOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            program: None,
            pack_threads: cores.min(2),
            pack_window_bytes: 100 << 20,
            big_file_bytes: 32 << 20,
            max_push_bytes: 2 << 30,
        }
    }
}

/// The git program, found and with its version checked.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
    version: (u32, u32),
    options: GitOptions,
    reaper: Reaper,
    /// Capability advertisements for fetch (protocol version 2) and push; each is filled by the first call that needs it.
    capabilities: OnceCell<Bytes>,
    push_capabilities: OnceCell<Bytes>,
}

/// The part of the protocol that one process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The reply to `GET info/refs`: refs or capabilities, without the `# service=` header.
    Advertise,
    /// One stateless request on standard input, one reply on standard output.
    Request,
    /// A stateful session: requests and replies alternate until both sides are done.
    Session,
}

impl Exchange {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Advertise => &["--stateless-rpc", "--http-backend-info-refs"],
            Self::Request => &["--stateless-rpc"],
            Self::Session => &[],
        }
    }
}

/// Parameters of `receive-pack` besides the repository.
#[derive(Clone, Debug)]
pub struct ReceivePack {
    /// The part of the protocol to serve.
    pub exchange: Exchange,
    /// The protocol version that the client asked for.
    pub protocol: Option<GitProtocol>,
    /// The folder with the `proc-receive` hook, which gets every ref command. Absent for advertisements.
    pub hooks: Option<PathBuf>,
    /// Environment variables for the hook.
    pub hook_env: Vec<(&'static str, OsString)>,
}

impl Git {
    /// Finds the git program and checks its version.
    ///
    /// # Errors
    /// `Program` when git is missing, too old, or silent for 10 seconds; `Io` when the reaper thread cannot be started.
    pub async fn find(options: GitOptions) -> Result<Self, GitError> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => std::env::split_paths(SEARCH_PATH)
                .map(|folder| folder.join("git"))
                .find(|path| path.is_file())
                .ok_or_else(|| {
                    GitError::Program(format!("git was not found in {SEARCH_PATH}: install it, or name the program"))
                })?,
        };
        let mut command = Command::new(&program);
        command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await;
        let output = output.map_err(|_| GitError::Program(format!("`{}` does not answer", program.display())))?;
        let output =
            output.map_err(|error| GitError::Program(format!("`{}` cannot be run: {error}", program.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version = parse_version(&text)
            .ok_or_else(|| GitError::Program(format!("`{}` is no git: it says `{text}`", program.display())))?;
        if version < MIN_VERSION {
            let (major, minor) = MIN_VERSION;
            return Err(GitError::Program(format!(
                "git {major}.{minor} or newer is needed; `{}` is `{text}`",
                program.display()
            )));
        }
        let (capabilities, push_capabilities) = (OnceCell::new(), OnceCell::new());
        Ok(Self { program, version, options, reaper: Reaper::start()?, capabilities, push_capabilities })
    }

    /// The program's major and minor version.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Starts `upload-pack`, which serves a fetch.
    ///
    /// # Errors
    /// `RepositoryNotFound`, and `Io` when the process cannot be started.
    pub fn upload_pack(
        &self,
        repository: &Path,
        exchange: Exchange,
        protocol: Option<&GitProtocol>,
    ) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.args(["upload-pack", "--strict"]).args(exchange.options());
        set_protocol(&mut command, protocol);
        self.spawn("upload-pack", command.arg(repository))
    }

    /// Starts `receive-pack`, which serves a push: it stores objects, and its `proc-receive` hook gets all ref commands.
    ///
    /// # Errors
    /// `RepositoryNotFound`, and `Io` when the process cannot be started.
    pub fn receive_pack(&self, repository: &Path, request: &ReceivePack) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg("-c").arg(format!("receive.maxInputSize={}", self.options.max_push_bytes));
        command.args(["-c", "receive.procReceiveRefs=refs"]);
        command.env("GIT_ALLOC_LIMIT", MAX_ALLOCATION);
        if let Some(hooks) = &request.hooks {
            command.arg("-c").arg(setting("core.hooksPath", hooks));
        }
        command.arg("receive-pack").args(request.exchange.options());
        command.envs(request.hook_env.iter().map(|(name, value)| (name, value)));
        set_protocol(&mut command, request.protocol.as_ref());
        self.spawn("receive-pack", command.arg(repository))
    }

    /// Starts `upload-archive`, which reads the client's request from standard input and sends the tree of a ref.
    ///
    /// # Errors
    /// `RepositoryNotFound`, and `Io` when the process cannot be started.
    pub fn upload_archive(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        self.spawn("upload-archive", command.arg("upload-archive").arg(repository))
    }

    /// Starts `update-ref --stdin -z`, which runs the ref transaction that is written to its standard input.
    pub(crate) fn update_ref(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["update-ref", "--no-deref", "--stdin", "-z"]);
        self.spawn("update-ref", &mut command)
    }

    /// Starts `cat-file blob`, which writes a blob to its standard output.
    ///
    /// # Errors
    /// `RepositoryNotFound`, and `Io` when the process cannot be started.
    pub fn cat_file(&self, repository: &Path, blob: git2::Oid) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["cat-file", "blob"]).arg(blob.to_string());
        command.stdin(Stdio::null());
        self.spawn("cat-file", &mut command)
    }

    /// Starts `rev-list` for a path: commit and path come on standard input, as `<id>\n--\n<path>\n`.
    pub(crate) fn rev_list(&self, repository: &Path, skip: usize, count: usize) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.env("GIT_LITERAL_PATHSPECS", "1").arg(option("--git-dir", repository)).arg("rev-list");
        // git parses the number as a 32-bit integer, and no history is longer.
        let skip = skip.min(i32::MAX as usize);
        command.arg(format!("--skip={skip}")).arg(format!("--max-count={count}")).arg("--stdin");
        self.spawn("rev-list", &mut command)
    }

    /// Starts `archive`, which writes the tree of a commit to its standard output, below the folder `prefix`.
    pub(crate) fn archive(
        &self,
        repository: &Path,
        format: Format,
        prefix: &Prefix,
        commit: git2::Oid,
        seconds: i64,
    ) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.args(["-c", "tar.umask=0022"]).arg(option("--git-dir", repository)).arg("archive");
        command.arg(format!("--format={}", format.name())).arg(format!("--prefix={prefix}/"));
        // git parses smaller numbers as a part of a date.
        command.arg(format!("--mtime=@{}", seconds.max(100_000_000))).arg(commit.to_string()).stdin(Stdio::null());
        self.spawn("archive", &mut command)
    }

    /// Returns a git command with environment and settings, to which the caller adds the subcommand.
    fn command(&self, repository: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs([
            ("PATH", SEARCH_PATH),
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ]);
        // A later `-c` wins: `receive_pack` sets its own hooks path after this one.
        command.args(["-c", "core.hooksPath=/dev/null"]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.arg("-c").arg(format!("core.bigFileThreshold={}", self.options.big_file_bytes));
        command.arg("-c").arg(format!("pack.threads={}", self.options.pack_threads));
        command.arg("-c").arg(format!("pack.windowMemory={}", self.options.pack_window_bytes));
        command.arg("-c").arg(setting("safe.directory", repository));
        command.current_dir(repository).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }

    fn spawn(&self, name: &'static str, command: &mut Command) -> Result<GitChild, GitError> {
        let mut child = command.spawn().map_err(|error| {
            // The working folder is the repository. The git program still exists, so the repository is what is missing.
            let is_gone = error.kind() == io::ErrorKind::NotFound && self.program.is_file();
            if is_gone { GitError::RepositoryNotFound } else { GitError::io(format!("starting git {name}"))(error) }
        })?;
        for pipe in
            [child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd)].into_iter().flatten()
        {
            // The kernel limits the total pipe memory of a user. A pipe that stays small only transfers more slowly.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
        metrics::counter!("ferrite_git_processes_total", "command" => name).increment(1);
        Ok(GitChild {
            name,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child: Some(child),
            reaper: self.reaper.clone(),
        })
    }
}

fn set_protocol(command: &mut Command, protocol: Option<&GitProtocol>) {
    if let Some(protocol) = protocol {
        command.env("GIT_PROTOCOL", protocol.as_str());
    }
}

fn setting(key: &str, value: &Path) -> OsString {
    option(key, value)
}

/// Returns `name=value` as one argument, so that a path cannot be parsed as an option.
fn option(name: &str, value: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push("=");
    text.push(value);
    text
}

/// Parses `git version 2.47.3` as `(2, 47)`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
}

/// A running git process. If dropped before its end, the process group gets TERM, and KILL two seconds later at the latest.
#[derive(Debug)]
pub struct GitChild {
    /// Standard input of the process; take and drop it to signal the end of input.
    pub stdin: Option<ChildStdin>,
    /// Standard output of the process.
    pub stdout: Option<ChildStdout>,
    /// Standard error of the process. A process that writes more than the pipe holds blocks until this is read.
    pub stderr: Option<ChildStderr>,
    name: &'static str,
    /// `None` once the process has ended.
    child: Option<Child>,
    reaper: Reaper,
}

impl GitChild {
    /// The git subcommand.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the process id while the process runs; the id of its process group is the same.
    pub(crate) fn id(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok())
    }

    /// Waits until the process has ended. If this future is dropped, the process keeps running until the child is dropped.
    ///
    /// # Errors
    /// `Internal` when the process was waited for before, and `Io`.
    pub async fn wait(&mut self) -> Result<ExitStatus, GitError> {
        let Some(child) = &mut self.child else {
            return Err(GitError::Internal(format!("git {} was waited for twice", self.name)));
        };
        let status = child.wait().await.map_err(GitError::io(format!("waiting for git {}", self.name)))?;
        self.child = None;
        Ok(status)
    }

    /// Ends the process and its group, and waits until the process is reaped.
    pub(crate) async fn end(mut self) {
        if let Some(child) = self.child.take() {
            // The channel carries no value: the reaper drops its sender.
            drop(self.reaper.end(child).await);
        }
    }

    /// For short commands: writes `input`, waits at most `deadline` for the end, and returns up to 1 MiB of the output.
    ///
    /// # Errors
    /// [`GitError::Command`] unless the exit status is zero, [`GitError::TimedOut`] after the process was ended.
    pub async fn finish(mut self, input: &[u8], deadline: Duration) -> Result<Vec<u8>, GitError> {
        let ended = tokio::time::timeout(deadline, self.exchange(input)).await;
        ended.map_err(|_| GitError::TimedOut { what: self.name })?
    }

    /// Writes `input`, waits for the end of the process, ends it early when `stop` completes, and returns whether it ended by itself.
    ///
    /// # Errors
    /// Those of [`GitChild::finish`].
    pub(crate) async fn finish_unless<S>(mut self, input: &[u8], stop: S, deadline: Duration) -> Result<bool, GitError>
    where
        S: Future<Output = ()>,
    {
        let what = self.name;
        let outcome = tokio::select! {
            outcome = self.exchange(input) => return outcome.map(|_| true),
            () = stop => Ok(false),
            () = tokio::time::sleep(deadline) => Err(GitError::TimedOut { what }),
        };
        self.end().await;
        outcome
    }

    /// Writes `input` to the process, reads its output and waits for its end.
    async fn exchange(&mut self, input: &[u8]) -> Result<Vec<u8>, GitError> {
        let name = self.name;
        let (stdin, stdout, stderr) = (self.stdin.take(), self.stdout.take(), self.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A process that fails early closes its input; the exit status tells the cause.
                drop(stdin.write_all(input).await);
            }
        };
        let ((), output, errors) =
            tokio::join!(feed, read_limited(stdout, MAX_STDOUT_BYTES), read_limited(stderr, MAX_STDERR_BYTES));
        let status = self.wait().await?;
        if !status.success() {
            // Some commands, such as `fsck`, report problems on standard output.
            let message = if errors.is_empty() { &output } else { &errors };
            let stderr = String::from_utf8_lossy(message).trim_end().to_owned();
            return Err(GitError::Command { command: name, status: status.to_string(), stderr });
        }
        Ok(output)
    }
}

impl Drop for GitChild {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            drop(self.reaper.end(child));
        }
    }
}

/// Reads to the end of the stream and returns the first `limit` bytes.
pub(crate) async fn read_limited<R: tokio::io::AsyncRead + Unpin>(from: Option<R>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // A read error ends the text; the exit status of the process tells whether the run failed.
        drop((&mut from).take(limit).read_to_end(&mut kept).await);
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    kept
}

#[cfg(test)]
mod tests;
