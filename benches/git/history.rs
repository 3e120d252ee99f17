//! A history that looks like a real one, made by `git fast-import`: text files of several KB that change by a few lines, binary files,
//! folders several levels deep, topic branches that are merged, tags. The same parameters give the same history.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::settings;
use crate::{Failure, temporary};

/// Part of the cache's key: raise it when the generator changes.
const GENERATOR_VERSION: u32 = 1;
/// One file in this many is binary.
const FILES_PER_BINARY: u64 = 40;
/// The branch that everything is merged to.
pub(crate) const MAIN: &str = "main";

const WORDS: &str = "account archive async await batch block branch buffer bytes cache call change channel check child client \
    close commit config connect content copy count cursor data deadline decode default delete delta depth digest disk done draft edge \
    empty encode entry error event exact expect fetch field file filter find flush folder format frame graph group guard handle hash \
    head header hook index inner input iter join journal key label lease length level limit line link list load lock loop map mark \
    match merge message method mode name next node object offset open option order output owner pack page parent parse part path \
    pause peer pipe place plan policy pool prefix probe process proof push query queue range rate read reason record ref region reject \
    relay remote reply report request reset result retry return role route row rule run scan scope seal search seat section seek self \
    send server session settle shard side signal size slot socket sort source span spawn split stage start state status step store \
    stream string sum sweep switch table tag target task team text thread ticket time token total trace track tree trust turn type \
    unit update upload user value verify version view wait walk watch window work write zone";

/// A generator of pseudo-random numbers: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// An index into a list of this length, which is not 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        (self.next() % length as u64) as usize
    }

    /// Bytes that do not compress.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

/// A `git fast-import` on a new repository.
pub(crate) struct Import {
    child: std::process::Child,
    stream: Option<BufWriter<std::process::ChildStdin>>,
}

impl Import {
    /// Starts `git fast-import` in a repository, which is made if it is missing.
    pub(crate) fn begin(repository: &Path) -> Result<Self, Failure> {
        run(Path::new("/"), &["init", "-q", "--bare", "-b", MAIN], &[repository])?;
        let mut command = git(repository);
        command.args(["fast-import", "--quiet", "--depth=5"]).stdin(Stdio::piped());
        let mut child = command.spawn()?;
        let stream = child.stdin.take().map(|stdin| BufWriter::with_capacity(1 << 20, stdin));
        Ok(Self { child, stream })
    }

    /// The standard input of the process, for its commands.
    pub(crate) fn stream(&mut self) -> Result<&mut impl Write, Failure> {
        self.stream.as_mut().ok_or_else(|| "fast-import has no input".into())
    }

    /// Writes the header of a commit. Its files follow.
    pub(crate) fn commit(&mut self, branch: &str, mark: u64, parents: &[String]) -> Result<(), Failure> {
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
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let out = self.stream()?;
        writeln!(out, "M 100644 inline {path}\ndata {}", content.len())?;
        out.write_all(content)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// Ends the input and waits for the process.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
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

/// Packs a repository as a full maintenance job does: one pack, a bitmap, a commit-graph with changed paths.
pub(crate) fn pack(repository: &Path, anew: bool) -> Result<(), Failure> {
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

/// Returns the path of a repository in the cache, which `make` fills if it is missing.
pub(crate) fn cached(
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

/// Copies a repository given by the user, and packs the copy.
pub(crate) fn copied(repository: &Path, to: &Path) -> Result<(), Failure> {
    run(Path::new("/"), &["clone", "-q", "--bare", "--no-hardlinks"], &[&repository.canonicalize()?, to])?;
    pack(to, false)
}

struct Files {
    random: Random,
    words: Vec<&'static str>,
    contents: Vec<Vec<String>>,
    binary: Vec<Vec<u8>>,
    count: usize,
}

impl Files {
    fn path(number: u64) -> String {
        let (area, module, part) = (number % 11, number / 11 % 23, number / 253 % 7);
        let kind = if number % FILES_PER_BINARY == 7 { "bin" } else { "rs" };
        match number % 5 {
            0 => format!("area-{area}/module-{module}/file-{number}.{kind}"),
            1 | 2 => format!("area-{area}/module-{module}/part-{part}/file-{number}.{kind}"),
            _ => format!("area-{area}/module-{module}/part-{part}/src/inner/file-{number}.{kind}"),
        }
    }

    fn line(&mut self) -> String {
        let words = 3 + self.random.below(9);
        let mut line = "    ".repeat(self.random.index(4));
        for _ in 0..words {
            let word = self.random.next();
            line.push_str(self.words[(word % self.words.len() as u64) as usize]);
            match word >> 60 {
                0 => line.push_str(&format!("_{:x}", word >> 40 & 0xffff)),
                1 => line.push_str("();"),
                _ => {}
            }
            line.push(' ');
        }
        line.push('\n');
        line
    }

    /// Adds a file.
    fn add(&mut self) -> u64 {
        let number = self.count as u64;
        self.count += 1;
        let (mut lines, mut bytes) = (Vec::new(), Vec::new());
        if number % FILES_PER_BINARY == 7 {
            let length = 50_000 + self.random.index(800_000);
            bytes = self.random.bytes(length);
        } else {
            // Most files are short, a few are long.
            let longest = [60, 120, 300, 900][self.random.index(4)];
            lines = (0..20 + self.random.below(longest)).map(|_| self.line()).collect();
        }
        self.contents.push(lines);
        self.binary.push(bytes);
        number
    }

    /// Changes a few lines of a file, or a few bytes.
    fn change(&mut self, number: u64) {
        let index = number as usize;
        if !self.binary[index].is_empty() {
            let at = self.random.index(self.binary[index].len() - 64);
            let patch = self.random.bytes(64);
            self.binary[index][at..at + 64].copy_from_slice(&patch);
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let at = self.random.index(self.contents[index].len());
            let line = self.line();
            if self.random.below(3) == 0 {
                self.contents[index].insert(at, line);
            } else {
                self.contents[index][at] = line;
            }
        }
    }

    fn write(&self, import: &mut Import, number: u64) -> Result<(), Failure> {
        let index = number as usize;
        if self.binary[index].is_empty() {
            import.file(&Self::path(number), self.contents[index].concat().as_bytes())
        } else {
            import.file(&Self::path(number), &self.binary[index])
        }
    }
}

/// Writes the history.
pub(crate) fn large(cache: &Path, commits: u64, files: u64) -> Result<PathBuf, Failure> {
    cached(cache, &format!("history-{commits}-{files}"), |import| {
        let mut all = Files {
            random: Random::new(42),
            words: WORDS.split_whitespace().collect(),
            contents: Vec::new(),
            binary: Vec::new(),
            count: 0,
        };
        import.commit(MAIN, 1, &[])?;
        for _ in 0..(files / 4).max(1) {
            let number = all.add();
            all.write(import, number)?;
        }
        grow(import, &mut all, commits, files)
    })
}

/// Writes all commits after the first one.
fn grow(import: &mut Import, all: &mut Files, commits: u64, files: u64) -> Result<(), Failure> {
    let (mut tip, mut topic) = (1, Topic::default());
    for mark in 2..=commits {
        let place = mark % 40;
        let branch = if (20..28).contains(&place) { format!("topic/{}", mark / 40) } else { MAIN.to_owned() };
        let merges = place == 33 && topic.tip > 0;
        let mut parents = vec![format!(":{}", if branch == MAIN || topic.tip == 0 { tip } else { topic.tip })];
        if merges {
            parents.push(format!(":{}", topic.tip));
        }
        import.commit(&branch, mark, &parents)?;
        let mut changed = if merges { std::mem::take(&mut topic.changed) } else { BTreeSet::new() };
        // All files exist after four fifths of the history.
        let wanted = files / 4 + (files - files / 4) * mark * 5 / (commits * 4).max(1);
        while (all.count as u64) < wanted.min(files) {
            changed.insert(all.add());
        }
        for _ in 0..1 + all.random.below(4) {
            let number = all.random.below(all.count as u64);
            // Large files change rarely.
            if number % FILES_PER_BINARY != 7 || all.random.below(50) == 0 {
                all.change(number);
                changed.insert(number);
            }
        }
        for number in &changed {
            all.write(import, *number)?;
        }
        if branch == MAIN {
            tip = mark;
            topic.tip = if merges { 0 } else { topic.tip };
        } else {
            topic.tip = mark;
            topic.changed.extend(changed);
        }
        name(import, mark, commits)?;
    }
    Ok(())
}

#[derive(Default)]
struct Topic {
    tip: u64,
    changed: BTreeSet<u64>,
}

/// Writes tags, and deletes old branches.
fn name(import: &mut Import, mark: u64, commits: u64) -> Result<(), Failure> {
    let time = 1_500_000_000 + mark * 300;
    let out = import.stream()?;
    if mark.is_multiple_of(500) {
        writeln!(out, "tag v{}\nfrom :{mark}\ntagger Committer <committer@example.com> {time} +0100", mark / 500)?;
        writeln!(out, "data 8\nRelease\n")?;
    }
    // Older branches were deleted after their merge.
    if mark % 40 == 39 && mark + 1_600 < commits {
        writeln!(out, "reset refs/heads/topic/{}\nfrom {}\n", mark / 40, "0".repeat(40))?;
    }
    Ok(())
}
