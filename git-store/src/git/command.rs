//! Runs git with constant arguments and a fixed environment. Every process is stopped and reaped.
//! No client text reaches the arguments: they are constants, object ids, and paths made from
//! repository ids. The one exception is the path of a blame, which follows `--`.

mod capabilities;
mod child;
mod cpu_watch;
pub mod diff;
pub mod fetch;
mod history;
pub mod maintenance_task;
mod measure;
pub mod merge;
mod pack;
mod reaper;

use std::{
    ffi::OsString,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use bytes::Bytes;
use ferrite_proto::git_transport::GitProtocol;
use tokio::{process::Command, sync::OnceCell};

pub use self::child::GitChild;
use self::{child::set_limits, measure::RunningProcess, pack::quoted, reaper::Reaper};
pub use self::{
    child::{MAX_STDERR_BYTES, feed, read_limited},
    cpu_watch::{CpuWatch, sees_children},
};
use super::fsck;
use crate::types::{
    archive::{Format, Prefix},
    error::GitError,
    limits::MAX_LOADED_DELTA_OBJECT_BYTES,
};

/// The oldest supported git, as major and minor version: the first with `repack --expire-to`.
const MIN_VERSION: (u32, u32) = (2, 39);
/// The first git that limits the depth of trees and the lengths of names in a push.
const TREE_LIMITS_VERSION: (u32, u32) = (2, 43);
/// The first git with `archive --mtime`.
const ARCHIVE_MTIME_VERSION: (u32, u32) = (2, 40);
/// The first git in which `pack.allowPackReuse` is more than a boolean. Older versions only reuse
/// objects of a single pack.
const PACK_REUSE_MODES_VERSION: (u32, u32) = (2, 44);

/// The only `PATH` of git processes, also searched for git itself.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Largest allocation of a process that receives a pack, where the sender declares object sizes.
/// Files above `core.bigFileThreshold` are never loaded whole.
const MAX_ALLOCATION: &str = "1g";

/// Pipe buffer size. With the usual 64 KiB, both sides mostly wait for each other.
const PIPE_BYTES: usize = 1 << 20;

const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.logAllRefUpdates=false",
    // Mapped pack windows count toward the address space limit of the process.
    "core.packedGitLimit=2g",
    "core.packedGitWindowSize=256m",
    "core.useReplaceRefs=false",
    "gc.auto=0",
    // For `export-subst`, `git archive` may verify signatures. Run no program then.
    "gpg.program=/bin/false",
    "gpg.ssh.program=/bin/false",
    "gpg.x509.program=/bin/false",
    "maintenance.auto=false",
    "protocol.allow=never",
    "receive.advertiseAtomic=true",
    "receive.advertisePushOptions=true",
    "receive.autogc=false",
    "receive.denyCurrentBranch=ignore",
    "receive.denyDeleteCurrent=ignore",
    "receive.fsckObjects=true",
    "receive.unpackLimit=1",
    "transfer.fsckObjects=true",
    "transfer.unpackLimit=1",
    "uploadpack.allowFilter=true",
    "uploadpack.allowReachableSHA1InWant=true",
    "uploadpack.hideRefs=refs/ferrite",
    "uploadpack.hideRefs=refs/replace",
    "uploadpack.keepAlive=5",
    // The cost of other filters is up to the client: `sparse:oid` matches the patterns of any file
    // against every path.
    "uploadpackfilter.allow=false",
    "uploadpackfilter.blob:limit.allow=true",
    "uploadpackfilter.blob:none.allow=true",
    "uploadpackfilter.combine.allow=true",
    "uploadpackfilter.object:type.allow=true",
    "uploadpackfilter.tree.allow=true",
];

/// Maximum depth of the filter `tree:<depth>`.
pub const MAX_TREE_FILTER_DEPTH: u32 = 32;

/// CPU limit of a process that makes an archive, a little above the wall-clock limit.
const ARCHIVE_CPU: Duration = Duration::from_secs(160);

/// Options of git processes.
#[derive(Clone, Debug)]
pub struct GitOptions {
    /// The git program: an absolute path, or a name that is searched for. `git` if absent.
    pub program: Option<PathBuf>,
    /// Threads of one `pack-objects` process.
    pub pack_threads: usize,
    /// Size of the delta window per thread, in bytes.
    pub pack_window_bytes: u64,
    /// Larger files, in bytes, are streamed instead of loaded and get no deltas.
    pub big_file_bytes: u64,
    /// The largest pack a push may send, in bytes.
    pub max_push_bytes: u64,
    /// Address space limit of one process, in bytes; 0 for none.
    pub process_memory_bytes: u64,
    /// CPU time limit of one process, over all its threads; zero for none.
    pub process_cpu: Duration,
}

impl Default for GitOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            program: None,
            pack_threads: cores.min(2),
            pack_window_bytes: 100 << 20,
            big_file_bytes: MAX_LOADED_DELTA_OBJECT_BYTES,
            max_push_bytes: 2 << 30,
            process_memory_bytes: 8 << 30,
            process_cpu: Duration::from_secs(7200),
        }
    }
}

/// The git program. Its version has been checked.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
    version: (u32, u32),
    options: GitOptions,
    reaper: Reaper,
    /// Capability advertisements for fetch (protocol version 2) and push, filled on first use.
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

/// Hooks of a git process.
#[derive(Debug)]
pub struct HookSettings<'a> {
    /// For a fetch, the program that makes packs. For a push, the folder with the `proc-receive`
    /// hook, which gets every ref command.
    pub path: &'a Path,
    /// Environment variables for the hooks.
    pub env: Vec<(&'static str, OsString)>,
}

impl Git {
    /// Finds the git program and checks its version.
    ///
    /// # Errors
    /// `Program` if git is missing, too old, or silent for 10 seconds.
    pub async fn find(options: GitOptions) -> Result<Self, GitError> {
        let (program, version) = find_program(options.program.as_deref()).await?;
        let (capabilities, push_capabilities) = (OnceCell::new(), OnceCell::new());
        Ok(Self { program, version, options, reaper: Reaper::start()?, capabilities, push_capabilities })
    }

    /// The git version, major and minor.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Whether pushes of very deep trees and very long names are rejected. Older git accepts them,
    /// and its processes can crash in such a repository.
    #[must_use]
    pub fn limits_trees(&self) -> bool {
        self.version >= TREE_LIMITS_VERSION
    }

    /// Starts `upload-pack`, which serves a fetch. With a hook (`uploadpack.packObjectsHook`), it
    /// runs that instead of `pack-objects`.
    pub fn upload_pack(
        &self,
        repository: &Path,
        exchange: Exchange,
        protocol: Option<&GitProtocol>,
        hook: Option<HookSettings<'_>>,
    ) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        if let Some(HookSettings { path, env }) = hook {
            let program = quoted(path.as_os_str());
            command.arg("-c").arg(option("uploadpack.packObjectsHook", Path::new(&program))).envs(env);
        }
        command.args(["upload-pack", "--strict"]).args(exchange.options());
        set_protocol(&mut command, protocol);
        self.spawn("upload-pack", command.arg(repository))
    }

    /// Starts `receive-pack`, which serves a push: it stores objects and passes all ref commands to
    /// its `proc-receive` hook. An advertisement needs no hooks.
    pub fn receive_pack(
        &self,
        repository: &Path,
        exchange: Exchange,
        protocol: Option<&GitProtocol>,
        hooks: Option<HookSettings<'_>>,
    ) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg("-c").arg(format!("receive.maxInputSize={}", self.options.max_push_bytes));
        command.args(["-c", "receive.procReceiveRefs=refs"]);
        for setting in fsck::push_settings() {
            command.arg("-c").arg(setting);
        }
        if exchange != Exchange::Request {
            // So that `git push --mirror` does not try to delete them. Where nothing is advertised,
            // our hook gives the reason. git rejects updates of a hidden ref only after `pre-receive`
            // has seen them, so an atomic push loses no part.
            command.args(["-c", "receive.hideRefs=refs/pull"]);
        }
        command.env("GIT_ALLOC_LIMIT", MAX_ALLOCATION);
        if let Some(HookSettings { path, env }) = hooks {
            command.arg("-c").arg(option("core.hooksPath", path)).envs(env);
        }
        command.arg("receive-pack").args(exchange.options());
        set_protocol(&mut command, protocol);
        self.spawn("receive-pack", command.arg(repository))
    }

    /// Starts `upload-archive`, which reads a request and sends a tree. We build the request: it
    /// names the tree by id, and its paths are not patterns.
    pub fn upload_archive(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.args(["-c", "uploadArchive.allowUnreachable=true"]);
        command.env("GIT_LITERAL_PATHSPECS", "1");
        self.spawn_with("upload-archive", command.arg("upload-archive").arg(repository), ARCHIVE_CPU)
    }

    /// Starts `update-ref --stdin -z`, which runs the ref transaction on its standard input.
    pub fn update_ref(&self, repository: &Path) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["update-ref", "--no-deref", "--stdin", "-z"]);
        self.spawn("update-ref", &mut command)
    }

    /// Starts `cat-file blob`, which writes a blob to its standard output.
    pub fn cat_file(&self, repository: &Path, blob: git2::Oid) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.arg(option("--git-dir", repository)).args(["cat-file", "blob"]).arg(blob.to_string());
        command.stdin(Stdio::null());
        self.spawn("cat-file", &mut command)
    }

    /// Starts `rev-list` for a path. Standard input is `<id>\n--\n<path>\n`.
    pub fn rev_list(&self, repository: &Path, skip: usize, count: usize) -> Result<GitChild, GitError> {
        let mut command = self.command(repository);
        command.env("GIT_LITERAL_PATHSPECS", "1").arg(option("--git-dir", repository)).arg("rev-list");
        // git parses the number as a 32-bit integer, and no history is longer.
        let skip = skip.min(i32::MAX as usize);
        command.arg(format!("--skip={skip}")).arg(format!("--max-count={count}")).arg("--stdin");
        self.spawn("rev-list", &mut command)
    }

    /// Starts `archive`, which writes the tree of a commit to its standard output, under `prefix`.
    pub fn archive(
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
        if self.version >= ARCHIVE_MTIME_VERSION {
            // git parses smaller numbers as a part of a date.
            command.arg(format!("--mtime=@{}", seconds.max(100_000_000)));
        }
        // An older git takes the time of the commit by itself.
        command.arg(commit.to_string()).stdin(Stdio::null());
        self.spawn_with("archive", &mut command, ARCHIVE_CPU)
    }

    /// Returns a git command with environment and settings; the caller adds the subcommand.
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
        command.arg("-c").arg(pack_reuse(self.version));
        command.arg("-c").arg(format!("core.bigFileThreshold={}", self.options.big_file_bytes));
        command.arg("-c").arg(format!("pack.threads={}", self.options.pack_threads));
        command.arg("-c").arg(format!("pack.windowMemory={}", self.options.pack_window_bytes));
        command.arg("-c").arg(format!("uploadpackfilter.tree.maxDepth={MAX_TREE_FILTER_DEPTH}"));
        command.arg("-c").arg(option("safe.directory", repository));
        command.current_dir(repository).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }

    fn spawn(&self, name: &'static str, command: &mut Command) -> Result<GitChild, GitError> {
        self.spawn_with(name, command, self.options.process_cpu)
    }

    fn spawn_with(&self, name: &'static str, command: &mut Command, cpu: Duration) -> Result<GitChild, GitError> {
        let mut child = command.spawn().map_err(|error| {
            // The working folder is the repository. If git exists, the repository is missing.
            let is_gone = error.kind() == io::ErrorKind::NotFound && self.program.is_file();
            if is_gone { GitError::RepositoryNotFound } else { GitError::io(format!("starting git {name}"))(error) }
        })?;
        for pipe in
            [child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd)].into_iter().flatten()
        {
            // The kernel limits a user's total pipe memory. A pipe that stays small is just slower.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
        // Set before the process gets input; its children inherit the limits.
        set_limits(&child, self.options.process_memory_bytes, cpu);
        Ok(GitChild {
            name,
            running: RunningProcess::start(name),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child: Some(child),
            reaper: self.reaper.clone(),
        })
    }
}

/// Finds the program and returns its path and version. Searches `/usr/local/bin`, `/usr/bin` and
/// `/bin` for a name without a folder; `None` stands for `git`.
///
/// # Errors
/// `Program` when git is missing, too old, or does not respond within 10 seconds.
pub async fn find_program(program: Option<&Path>) -> Result<(PathBuf, (u32, u32)), GitError> {
    let name = program.unwrap_or_else(|| Path::new("git"));
    let path = if name.is_absolute() {
        name.to_owned()
    } else {
        let mut paths = std::env::split_paths(SEARCH_PATH).map(|folder| folder.join(name));
        let missing = || GitError::Program(format!("`{}` was not found in {SEARCH_PATH}", name.display()));
        paths.find(|path| path.is_file()).ok_or_else(missing)?
    };
    let failed = |reason: String| GitError::Program(format!("`{}` {reason}", path.display()));
    let mut command = Command::new(&path);
    command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(10), command.output()).await;
    let output = output.map_err(|_| failed("does not respond".to_owned()))?;
    let output = output.map_err(|error| failed(format!("cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let version = parse_version(&text).ok_or_else(|| failed(format!("is not git: its version is `{text}`")))?;
    if version < MIN_VERSION {
        let (major, minor) = MIN_VERSION;
        return Err(failed(format!("is `{text}`, but git {major}.{minor} or newer is needed")));
    }
    Ok((path, version))
}

/// Returns the setting that lets git reuse objects of a single pack. Not `multi`: if objects are in
/// several packs of a multi-pack index, git 2.47 then sends clones packs with missing objects or
/// damaged deltas.
fn pack_reuse(version: (u32, u32)) -> &'static str {
    // Older versions fail if the value is not a boolean.
    if version >= PACK_REUSE_MODES_VERSION { "pack.allowPackReuse=single" } else { "pack.allowPackReuse=true" }
}

fn set_protocol(command: &mut Command, protocol: Option<&GitProtocol>) {
    if let Some(protocol) = protocol {
        command.env("GIT_PROTOCOL", protocol.as_str());
    }
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

#[cfg(test)]
mod tests;
