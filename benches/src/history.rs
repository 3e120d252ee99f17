//! Histories created by `git fast-import`, cached in the target folder because they take long. The
//! same parameters give the same history.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::git::settings;
use crate::{Failure, from_root};

/// Part of the cache's key: increment it when the generator changes.
const GENERATOR_VERSION: u32 = 1;
/// Prefix of temporary folders in the cache, followed by the process id.
const TEMPORARY_PREFIX: &str = "temporary-";
/// The branch that everything is merged to.
pub const MAIN: &str = "main";

/// A pseudorandom number generator: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// An index into a list of this length, which must not be 0.
    pub fn index(&mut self, length: usize) -> usize {
        (self.number() % length as u64) as usize
    }

    /// Incompressible bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// A `git fast-import` into a new repository.
pub struct Import {
    child: std::process::Child,
    stream: Option<BufWriter<std::process::ChildStdin>>,
}

impl Import {
    /// Starts `git fast-import` in a repository, which is created if missing.
    pub fn begin(repository: &Path) -> Result<Self, Failure> {
        run(Path::new("/"), &["init", "-q", "--bare", "-b", MAIN], &[repository])?;
        let mut command = git(repository);
        command.args(["fast-import", "--quiet", "--depth=5"]).stdin(Stdio::piped());
        let mut child = command.spawn()?;
        let stream = child.stdin.take().map(|stdin| BufWriter::with_capacity(1 << 20, stdin));
        Ok(Self { child, stream })
    }

    /// Standard input of the process. Fails after [`Self::end`].
    pub fn stream(&mut self) -> Result<&mut impl Write, Failure> {
        self.stream.as_mut().ok_or_else(|| "the input of fast-import is closed".into())
    }

    /// Writes the header of a commit. Its files follow.
    pub fn commit(&mut self, branch: &str, mark: u64, parents: &[String]) -> Result<(), Failure> {
        let time = 1_500_000_000 + mark * 300;
        let message = format!("Change number {mark}\n\nWhy it was needed, in a line or two of text for the log.\n");
        let out = self.stream()?;
        writeln!(out, "commit refs/heads/{branch}\nmark :{mark}")?;
        writeln!(out, "author Author {0} <author{0}@example.com> {time} +0100", mark % 97)?;
        writeln!(out, "committer Committer {0} <committer{0}@example.com> {time} +0100", mark % 11)?;
        writeln!(out, "data {}\n{message}", message.len())?;
        for (number, parent) in parents.iter().enumerate() {
            writeln!(out, "{} {parent}", if number == 0 { "from" } else { "merge" })?;
        }
        Ok(())
    }

    /// Writes a file of the current commit.
    pub fn file(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let out = self.stream()?;
        writeln!(out, "M 100644 inline {path}\ndata {}", content.len())?;
        out.write_all(content)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// Ends the input and waits for the process.
    pub fn end(mut self) -> Result<(), Failure> {
        if let Some(mut stream) = self.stream.take() {
            stream.flush()?;
        }
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("git fast-import: {status}").into()) }
    }
}

fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    settings(|name, value| {
        command.env(name, value);
    });
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str], paths: &[&Path]) -> Result<(), Failure> {
    let output = git(folder).args(arguments).args(paths).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("git {arguments:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// Packs a repository like full maintenance: one pack, a bitmap, a commit-graph with changed paths.
fn pack(repository: &Path, anew: bool) -> Result<(), Failure> {
    let how: &[&str] = if anew {
        &["-c", "pack.threads=2", "-c", "core.bigFileThreshold=1m", "repack", "-adbfq"]
    } else {
        &["repack", "-adbq"]
    };
    run(repository, how, &[])?;
    run(repository, &["pack-refs", "--all"], &[])?;
    let graph = ["-c", "commitGraph.generationVersion=1", "commit-graph", "write", "--reachable", "--changed-paths"];
    run(repository, &[&graph[..], &["--no-progress"]].concat(), &[])
}

/// Returns the folder for generated repositories beside `target_tmp` (`CARGO_TARGET_TMPDIR`), and
/// removes temporary folders of killed benches.
pub fn cache(target_tmp: &str) -> Result<PathBuf, Failure> {
    let cache = Path::new(target_tmp).parent().ok_or("there is no target folder")?.join("bench-git");
    std::fs::create_dir_all(&cache)?;
    for entry in std::fs::read_dir(&cache)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(TEMPORARY_PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(cache)
}

/// A new folder in the cache, removed on drop.
pub fn temporary(cache: &Path) -> Result<TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix(&format!("{TEMPORARY_PREFIX}{}-", std::process::id())).tempdir_in(cache)?)
}

/// Path of a cached repository. `make` creates it if it is missing.
pub fn cached(
    cache: &Path,
    name: &str,
    make: impl FnOnce(&mut Import) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let path = cache.join(format!("{name}-v{GENERATOR_VERSION}.git"));
    if path.exists() {
        return Ok(path);
    }
    eprintln!("making {name}, once");
    let beside = temporary(cache)?;
    let made = beside.path().join("repository.git");
    let mut import = Import::begin(&made)?;
    make(&mut import)?;
    import.end()?;
    pack(&made, true)?;
    std::fs::rename(&made, &path)?;
    Ok(path)
}

/// Copies a user's repository, and packs the copy.
pub fn copied(repository: &Path, to: &Path) -> Result<(), Failure> {
    run(Path::new("/"), &["clone", "-q", "--bare", "--no-hardlinks"], &[&from_root(repository).canonicalize()?, to])?;
    pack(to, false)
}
