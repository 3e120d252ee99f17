//! The only way to run git: constant arguments, an environment built from nothing, ended and reaped whatever happens.
//!
//! No text of a user reaches an argument vector: only constants, object ids, and paths made from repository ids.

mod capabilities;
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

/// The oldest git that has everything we ask for.
const MIN_VERSION: (u32, u32) = (2, 41);

/// Where programs are looked for; nothing of the service's own environment is passed on.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is kept of a process's standard error, and the most that [`GitChild::finish`] takes from its standard output.
pub(crate) const MAX_STDERR_BYTES: u64 = 16 << 10;
const MAX_STDOUT_BYTES: u64 = 1 << 20;

/// The most memory that a process which takes a pack asks for at once: the size of an object is what its sender says. Files above
/// `core.bigFileThreshold` never are in memory as a whole.
const MAX_ALLOCATION: &str = "1g";

/// Bytes that a pipe to or from a process holds: with the usual 64 KiB both sides wait for each other all the time.
const PIPE_BYTES: usize = 1 << 20;

/// Settings that every process gets.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.logAllRefUpdates=false",
    "core.useReplaceRefs=false",
    "gc.auto=0",
    // A file of the repository can ask for signatures of commits in an archive: nobody has keys here, and no program is run.
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
    // Hidden from readers only: receive-pack would refuse them by itself, and then an atomic push would lose a part.
    "uploadpack.hideRefs=refs/ferrite",
    "uploadpack.hideRefs=refs/pull",
    "uploadpack.hideRefs=refs/replace",
    "uploadpack.keepAlive=5",
];

/// What can be set about git.
#[derive(Clone, Debug)]
pub struct GitOptions {
    /// The program; looked for in the usual folders when absent.
    pub program: Option<PathBuf>,
    /// Threads that one process packs with.
    pub pack_threads: usize,
    /// Bytes that each of those threads keeps in memory to compare objects.
    pub pack_window_bytes: u64,
    /// Bytes above which a file is neither compared with others nor held in memory as a whole.
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

/// A git program that was found and checked.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
    version: (u32, u32),
    options: GitOptions,
    reaper: Reaper,
    /// What it says it can do, once somebody asked.
    capabilities: OnceCell<Bytes>,
    push_capabilities: OnceCell<Bytes>,
}

/// The half of an exchange that a process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The answer to `info/refs`: what there is, without the `# service=` header.
    Advertise,
    /// One request on its standard input, one answer on its standard output.
    Request,
    /// The whole of it: the process speaks with the client until both are done.
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

/// What `receive-pack` needs besides the repository.
#[derive(Clone, Debug)]
pub struct ReceivePack {
    /// Which half.
    pub exchange: Exchange,
    /// The protocol asked for.
    pub protocol: Option<GitProtocol>,
    /// The folder that holds the `proc-receive` hook, which is handed every ref command. Absent for advertising.
    pub hooks: Option<PathBuf>,
    /// What the hook finds in its environment.
    pub hook_env: Vec<(&'static str, OsString)>,
}

impl Git {
    /// Finds the program and checks its version.
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

    /// Serves a fetch.
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

    /// Serves a push. The process takes objects in; every ref command goes to the `proc-receive` hook and is done there.
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

    /// Serves an archive of what the client asks for on its standard input: trees that a ref reaches, as tar or zip.
    pub fn upload_archive(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        self.spawn("upload-archive", command.arg("upload-archive").arg(repository))
    }

    /// Changes refs as its standard input says.
    pub(crate) fn update_ref(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["update-ref", "--no-deref", "--stdin", "-z"]);
        self.spawn("update-ref", &mut command)
    }

    /// Writes a blob to its standard output.
    pub fn cat_file(&self, repository: &Path, blob: git2::Oid) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["cat-file", "blob"]).arg(blob.to_string());
        command.stdin(Stdio::null());
        self.spawn("cat-file", &mut command)
    }

    /// Lists commits that changed a path: both come on its standard input, as `<id>\n--\n<path>\n`.
    pub(crate) fn rev_list(&self, repository: &Path, skip: usize, count: usize) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.env("GIT_LITERAL_PATHSPECS", "1").arg(option("--git-dir", repository)).arg("rev-list");
        // git counts in 32 bits, and no history is longer.
        let skip = skip.min(i32::MAX as usize);
        command.arg(format!("--skip={skip}")).arg(format!("--max-count={count}")).arg("--stdin");
        self.spawn("rev-list", &mut command)
    }

    /// Writes the tree of a commit to its standard output as an archive, with everything below the folder `prefix`.
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
        // git takes smaller numbers for a part of a date.
        command.arg(format!("--mtime=@{}", seconds.max(100_000_000))).arg(commit.to_string()).stdin(Stdio::null());
        self.spawn("archive", &mut command)
    }

    /// git with its environment and settings, before the subcommand.
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
        // A later `-c` wins: `receive-pack` names its hooks after this.
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
            // The working folder is the repository: git itself was there at start.
            let is_gone = error.kind() == io::ErrorKind::NotFound && self.program.is_file();
            if is_gone { GitError::RepositoryNotFound } else { GitError::io(format!("starting git {name}"))(error) }
        })?;
        for pipe in
            [child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd)].into_iter().flatten()
        {
            // The system has a bound for all of them together: a small pipe works as well, slower.
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

/// `name=path`, so that nothing in the path is an option.
fn option(name: &str, value: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push("=");
    text.push(value);
    text
}

/// `git version 2.47.3` to `(2, 47)`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?;
    let digits = minor.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
}

/// A running git process. Dropped before it has ended, its group gets TERM, and KILL two seconds later.
#[derive(Debug)]
pub struct GitChild {
    /// Its standard input; take it, and drop it to end the input.
    pub stdin: Option<ChildStdin>,
    /// Its standard output.
    pub stdout: Option<ChildStdout>,
    /// Its standard error; must be read for long answers, or the process may wait for ever.
    pub stderr: Option<ChildStderr>,
    name: &'static str,
    /// Absent once it has ended.
    child: Option<Child>,
    reaper: Reaper,
}

impl GitChild {
    /// The subcommand it runs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its process id while it runs, which is its group's as well.
    pub(crate) fn id(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok())
    }

    /// Waits until it has ended. Cancelling this leaves it running until the child is dropped.
    pub async fn wait(&mut self) -> Result<ExitStatus, GitError> {
        let Some(child) = &mut self.child else {
            return Err(GitError::Internal(format!("git {} was waited for twice", self.name)));
        };
        let status = child.wait().await.map_err(GitError::io(format!("waiting for git {}", self.name)))?;
        self.child = None;
        Ok(status)
    }

    /// Ends it and everything in its group, and waits for that.
    pub(crate) async fn end(mut self) {
        if let Some(child) = self.child.take() {
            // The sender says nothing; it goes.
            drop(self.reaper.end(child).await);
        }
    }

    /// Gives it `input`, waits for at most `deadline`, and returns what it wrote, up to 1 MiB. For short commands.
    ///
    /// Errors: [`GitError::Command`] unless it exits with zero, [`GitError::TimedOut`].
    pub async fn finish(mut self, input: &[u8], deadline: Duration) -> Result<Vec<u8>, GitError> {
        let ended = tokio::time::timeout(deadline, self.exchange(input)).await;
        ended.map_err(|_| GitError::TimedOut { what: self.name })?
    }

    /// Waits for its end, which comes early when `stop` is done or the deadline is over. Returns whether it was left to its own end.
    ///
    /// Errors: those of [`GitChild::finish`].
    pub(crate) async fn finish_unless<S>(mut self, stop: S, deadline: Duration) -> Result<bool, GitError>
    where
        S: Future<Output = ()>,
    {
        let what = self.name;
        let outcome = tokio::select! {
            outcome = self.exchange(&[]) => return outcome.map(|_| true),
            () = stop => Ok(false),
            () = tokio::time::sleep(deadline) => Err(GitError::TimedOut { what }),
        };
        self.end().await;
        outcome
    }

    /// Gives it `input` and reads what it writes, to its end.
    async fn exchange(&mut self, input: &[u8]) -> Result<Vec<u8>, GitError> {
        let name = self.name;
        let (stdin, stdout, stderr) = (self.stdin.take(), self.stdout.take(), self.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A process that failed early closes its input; its status says why.
                drop(stdin.write_all(input).await);
            }
        };
        let ((), output, errors) =
            tokio::join!(feed, read_limited(stdout, MAX_STDOUT_BYTES), read_limited(stderr, MAX_STDERR_BYTES));
        let status = self.wait().await?;
        if !status.success() {
            // Some commands say on their output what they are not content with.
            let said = if errors.is_empty() { &output } else { &errors };
            let stderr = String::from_utf8_lossy(said).trim_end().to_owned();
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

/// Reads to the end, keeping the first `limit` bytes.
pub(crate) async fn read_limited<R: tokio::io::AsyncRead + Unpin>(from: Option<R>, limit: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // A broken pipe ends the text; the status says whether that matters.
        drop((&mut from).take(limit).read_to_end(&mut kept).await);
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    }
    kept
}

#[cfg(test)]
mod tests;
