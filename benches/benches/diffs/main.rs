//! Compares diffs of random commits of a repository with those of plain `git diff`, byte for byte:
//! the text, and the data that is parsed from the same output.
//!
//!     make bench-diffs REPO=/path/to/bare.git             10,000 pairs
//!     make bench-diffs REPO=/path/to/bare.git PAIRS=500
//!
//! The repository is only read. Without `--bench`, as in `cargo test --benches`, it compares a few
//! pairs of a small generated repository, as a test of the bench.

mod render;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_benches::git::{git, run, text};
use ferrite_benches::history::{MAIN, Random, cache, cached};
use ferrite_benches::{Failure, block_on, from_root, percentile_ms};
use git_store::git::command::diff::{DiffBase, Whitespace};
use git_store::git::command::{Git, GitOptions};
use git_store::repo::objects::full_id;
use git_store::repo::read::diff::{DiffPair, read_diff};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a text that are compared. What follows is not read.
const MAX_BYTES: u64 = 50 << 20;
/// Commits to choose from.
const MAX_COMMITS: &str = "--max-count=1000000";
/// Number of pairs after which a line of progress is printed.
const PROGRESS: usize = 500;
/// Differences that are printed.
const MAX_SHOWN: usize = 20;

/// Diffs by Ferrite and by git.
#[derive(Debug, Parser)]
struct Args {
    /// A bare repository; a generated one by default.
    #[arg(long)]
    repository: Option<PathBuf>,

    /// Number of pairs.
    #[arg(long, default_value_t = 10_000)]
    pairs: usize,

    /// The same seed chooses the same pairs.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Default)]
struct Counts {
    equal: usize,
    /// Equal as far as they were read.
    equal_at_limit: usize,
    /// The data has all lines, and agrees with the text.
    data: usize,
    /// The data exceeds its limits.
    data_truncated: usize,
    different: usize,
    bytes: u64,
    /// Times of data.
    times: Vec<Duration>,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let (repository, pairs) = match &args.repository {
        Some(path) => (from_root(path).canonicalize()?, args.pairs),
        None => (small(&cache(env!("CARGO_TARGET_TMPDIR"))?)?, if args.bench { args.pairs } else { 60 }),
    };
    let counts = block_on(compare(&repository, pairs, args.seed))?;
    println!("pairs: {}", counts.equal + counts.equal_at_limit + counts.different);
    println!("text equal to git's: {}, and up to {} MiB: {}", counts.equal, MAX_BYTES >> 20, counts.equal_at_limit);
    println!("bytes compared: {}", counts.bytes);
    println!("data equal to the text: {}, truncated by its limits: {}", counts.data, counts.data_truncated);
    let percentiles = [50, 95, 99].map(|percent| format!("{:.1}", percentile_ms(&counts.times, percent)));
    println!("data, ms: p50, p95, p99 {}", percentiles.join(", "));
    println!("different: {}", counts.different);
    if counts.different == 0 { Ok(()) } else { Err("diffs differ from git's".into()) }
}

/// A history with renames, binary files and names that git quotes.
fn small(cache: &Path) -> Result<PathBuf, Failure> {
    cached(cache, "diffs", |import| {
        let mut random = Random::new(7);
        for mark in 1..=40 {
            let parents = if mark == 1 { Vec::new() } else { vec![format!(":{}", mark - 1)] };
            import.commit(MAIN, mark, &parents)?;
            let lines: String = (0..200).map(|line| format!("line {}\n", line / 7 + mark % 3)).collect();
            import.file(&format!("folder/file-{}.txt", mark % 5), lines.as_bytes())?;
            import.file(&format!("\"t\\303\\244b\\t{}\"", mark % 3), lines.as_bytes())?;
            import.file("binary", &random.bytes(100))?;
            import.file("end", format!("no line feed {mark}").as_bytes())?;
        }
        Ok(())
    })
}

async fn compare(repository: &Path, pairs: usize, seed: u64) -> Result<Counts, Failure> {
    let ours = Git::find(GitOptions::default()).await?;
    let commits = text(repository, &["rev-list", "--all", MAX_COMMITS]).await?;
    let commits: Vec<&str> = commits.lines().collect();
    if commits.is_empty() {
        return Err("the repository has no commits".into());
    }
    let (mut random, mut counts) = (Random::new(seed), Counts::default());
    for number in 0..pairs {
        let (old, new) = pair(&commits, &mut random);
        if let Err(difference) = one(&ours, repository, old, new, &mut counts).await {
            counts.different += 1;
            if counts.different <= MAX_SHOWN {
                println!("git diff {old} {new}: {difference}");
            }
        }
        if (number + 1) % PROGRESS == 0 {
            eprintln!("{} of {pairs} pairs, {} different", number + 1, counts.different);
        }
    }
    counts.times.sort_unstable();
    Ok(counts)
}

/// Two commits: often neighbours in the list, sometimes far from each other.
fn pair<'a>(commits: &[&'a str], random: &mut Random) -> (&'a str, &'a str) {
    let new = random.index(commits.len());
    let distance = match random.below(4) {
        0 | 1 => 1,
        2 => 1 + random.index(100),
        _ => random.index(commits.len()),
    };
    let old = (new + distance) % commits.len();
    if random.below(2) == 0 { (commits[old], commits[new]) } else { (commits[new], commits[old]) }
}

async fn one(ours: &Git, repository: &Path, old: &str, new: &str, counts: &mut Counts) -> Result<(), Failure> {
    let id = |text: &str| full_id(text.as_bytes()).ok_or("git printed no id");
    let pair = DiffPair { old: Some(id(old)?), new: id(new)? };
    let mut child = ours.diff(repository, DiffBase::Commit(id(old)?), pair.new, false, Whitespace::ShowAll)?;
    let mut plain = git(repository, &["diff", old, new]).spawn()?;
    let (made, expected) = tokio::try_join!(all(child.stdout.take()), all(plain.stdout.take()))?;
    counts.bytes += expected.len() as u64;
    if made != expected {
        let at = made.iter().zip(&expected).take_while(|(one, other)| one == other).count();
        let around = |text: &[u8]| text[at.saturating_sub(40)..text.len().min(at + 40)].escape_ascii().to_string();
        return Err(format!("at byte {at} `{}` instead of `{}`", around(&made), around(&expected)).into());
    }
    if expected.len() as u64 >= MAX_BYTES {
        child.end().await;
        counts.equal_at_limit += 1;
        return Ok(());
    }
    if !child.wait().await?.success() || !plain.wait().await?.success() {
        return Err("git failed".into());
    }
    let begin = Instant::now();
    let diff = read_diff(ours, repository, pair, Whitespace::ShowAll).await?;
    counts.times.push(begin.elapsed());
    let numbers = run(repository, &["diff", "--numstat", "-z", old, new]).await?;
    if !diff.changes.is_truncated && render::numstat(&diff.changes) != numbers {
        return Err("the numbers of lines differ".into());
    }
    if diff.changes.is_truncated || diff.patches.iter().any(|patch| patch.is_truncated) {
        counts.data_truncated += 1;
    } else if render::hunks(&diff) != render::hunks_of(&expected) {
        return Err("the lines of the data differ from the text".into());
    } else {
        counts.data += 1;
    }
    counts.equal += 1;
    Ok(())
}

async fn all(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.ok_or("git has no output")?.take(MAX_BYTES).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
