use std::cell::Cell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::git::{self, finish, git};
use ferrite_benches::processes::Processes;

use crate::daemon::Daemon;
use crate::report::{Sample, Series};
use crate::server::{EAGER_MAINTENANCE, Ferrite};

/// The repository of most rows.
pub(crate) const LARGE: &str = "large";
/// Repositories with more refs are not pushed completely; see [`push_all`].
const MAX_PUSHED_REFS: usize = 5_000;
/// Rows with longer rounds have fewer rounds.
const LONG_ROUND: Duration = Duration::from_secs(5);
const VERY_LONG_ROUND: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Git,
}

/// Sizes of the measurement.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Rounds of each row.
    pub(crate) rounds: u32,
    /// Short calls in a round.
    pub(crate) calls: u32,
    /// Pushes to the often-pushed repository.
    pub(crate) pushes: u32,
    /// Numbers of concurrent clones.
    pub(crate) clones: Vec<u32>,
    /// Concurrent clones while measuring git-svc's memory.
    pub(crate) memory_clones: u32,
    /// Size of the push while measuring git-svc's memory, in MiB.
    pub(crate) heavy_mib: u32,
    /// Branches of the repository with many.
    pub(crate) refs: u32,
    /// Numbers of files in the trees that get another file.
    pub(crate) trees: Vec<u32>,
}

/// A repository copied to both servers.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Facts about the large repository.
#[derive(Debug)]
pub(crate) struct Large {
    /// Where it was copied from.
    pub(crate) source: PathBuf,
    pub(crate) branch: String,
    /// Commits of that branch, newest first.
    pub(crate) commits: Vec<String>,
    /// Objects that its refs point to.
    pub(crate) tips: Vec<String>,
    /// A file of a few KB on that branch.
    pub(crate) file: String,
}

impl Large {
    pub(crate) async fn inspect(source: &Path) -> Result<Self, Failure> {
        let branch = git::text(source, &["symbolic-ref", "--short", "HEAD"]).await?;
        let commits = git::text(source, &["rev-list", "--first-parent", "-n", "5000", &branch]).await?;
        let tips = git::text(source, &["for-each-ref", "--format=%(objectname)", "refs/heads", "refs/tags"]).await?;
        let mut tips: Vec<_> = tips.lines().map(str::to_owned).collect();
        tips.sort_unstable();
        tips.dedup();
        let files = git::text(source, &["ls-tree", "-r", "-l", &branch]).await?;
        let file = files.lines().filter_map(readable).max_by_key(|path| path.matches('/').count());
        let file = file.or_else(|| files.lines().next()?.split_once('\t').map(|(_, path)| path));
        let file = file.ok_or("the repository has no files")?.to_owned();
        Ok(Self {
            source: source.to_owned(),
            branch,
            commits: commits.lines().map(str::to_owned).collect(),
            tips,
            file,
        })
    }
}

/// Path of an ordinary file of 2 to 8 KB from a line of `ls-tree -l`.
fn readable(line: &str) -> Option<&str> {
    let (about, path) = line.split_once('\t')?;
    let (mut fields, is_plain) =
        (about.split_whitespace(), |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte));
    let size: u64 = fields.nth(3)?.parse().ok()?;
    ((2_000..8_000).contains(&size) && about.starts_with("100644") && path.bytes().all(is_plain)).then_some(path)
}

/// Both servers.
pub(crate) struct Servers {
    pub(crate) ferrite: Ferrite,
    pub(crate) daemon: Daemon,
    pub(crate) large: Large,
    pub(crate) scale: Scale,
    work: PathBuf,
    branches: Cell<usize>,
    folders: Cell<u32>,
}

impl Servers {
    /// Starts both servers in the folder `work` with these repositories, packed by Ferrite's
    /// maintenance and by git.
    pub(crate) async fn start(work: &Path, sources: &[Source], large: Large, scale: Scale) -> Result<Self, Failure> {
        let daemon = Daemon::start(work).await?;
        let data = work.join("data");
        let eager = Ferrite::start(&data, EAGER_MAINTENANCE).await?;
        // Files to copy while Ferrite is stopped.
        let mut later = Vec::new();
        for Source { name, path: source } in sources {
            let begin = Instant::now();
            let id = eager.new_repository(name).await?;
            let is_all = push_all(&eager, source, name).await?;
            daemon.add(name, source)?;
            eager.wait_until_packed(id).await?;
            if !is_all {
                later.push((source.join("packed-refs"), eager.path(id)?.join("packed-refs")));
            }
            eprintln!("{name}: pushed and packed in {:.1} s", begin.elapsed().as_secs_f64());
        }
        drop(eager);
        for (from, to) in later {
            std::fs::copy(from, to)?;
        }
        let ferrite = Ferrite::start(&data, &[]).await?;
        let work = work.to_owned();
        Ok(Self { ferrite, daemon, large, scale, work, branches: Cell::new(0), folders: Cell::new(0) })
    }

    pub(crate) fn work(&self) -> &Path {
        &self.work
    }

    /// Path of a new folder, not created yet.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folders.set(self.folders.get() + 1);
        self.work.join(format!("folder-{}", self.folders.get()))
    }

    pub(crate) fn processes(&self, side: Side) -> &Processes {
        match side {
            Side::Ours => self.ferrite.processes(),
            Side::Git => self.daemon.processes(),
        }
    }

    pub(crate) fn url(&self, side: Side, name: &str) -> String {
        match side {
            Side::Ours => self.ferrite.url(name),
            Side::Git => self.daemon.url(name),
        }
    }

    pub(crate) fn push_url(&self, side: Side, name: &str) -> String {
        match side {
            Side::Ours => self.ferrite.push_url(name),
            Side::Git => self.daemon.url(name),
        }
    }

    /// Measures `work` on a server.
    pub(crate) async fn measure(
        &self,
        side: Side,
        work: impl Future<Output = Result<(), Failure>>,
    ) -> Result<Sample, Failure> {
        let processes = self.processes(side);
        let before = processes.settled().await;
        let begin = Instant::now();
        work.await?;
        let wall = begin.elapsed();
        Ok(Sample { wall, cpu: processes.settled().await.saturating_sub(before) })
    }

    /// Measures `work` on Ferrite and git in turn.
    pub(crate) async fn alternate(
        &self,
        work: impl AsyncFn(Side, u32) -> Result<(), Failure>,
    ) -> Result<(Series, Series), Failure> {
        let (mut ours, mut git) = (Series::default(), Series::default());
        let before = self.ferrite.processes().each();
        let (mut round, mut longest) = (0, Duration::ZERO);
        while round < self.rounds(longest) {
            for (side, series) in [(Side::Ours, &mut ours), (Side::Git, &mut git)] {
                let sample = self.measure(side, work(side, round)).await?;
                longest = longest.max(sample.wall);
                series.push(sample);
            }
            round += 1;
        }
        self.print_cpu_by_process(&before, ours.len());
        Ok((ours, git))
    }

    fn print_cpu_by_process(&self, before: &[(String, Duration)], rounds: usize) {
        let spent = self.ferrite.processes().each();
        let spent = before.iter().zip(&spent).map(|((name, before), (_, now))| (name, now.saturating_sub(*before)));
        let shown: Vec<_> = spent
            .filter(|(_, time)| !time.is_zero())
            .map(|(name, time)| format!("{name} {:.0}", time.as_secs_f64() * 1e3))
            .collect();
        eprintln!("CPU ms of our {rounds} rounds: {}", shown.join(", "));
    }

    /// Number of rounds, given the longest one so far.
    pub(crate) fn rounds(&self, longest: Duration) -> u32 {
        match longest {
            _ if longest > VERY_LONG_ROUND => self.scale.rounds.min(3),
            _ if longest > LONG_ROUND => self.scale.rounds.min(5),
            _ => self.scale.rounds,
        }
    }

    /// Creates and removes a bare clone.
    pub(crate) async fn clone(&self, side: Side, name: &str) -> Result<(), Failure> {
        let to = self.folder();
        let url = self.url(side, name);
        let mut command = git(&self.work, &["clone", "-q", "--bare", &url]);
        command.arg(&to);
        let outcome = finish(command).await;
        drop(std::fs::remove_dir_all(&to));
        outcome.map(drop)
    }

    /// Adds a branch at a commit without one, so that a clone needs an uncached pack.
    pub(crate) async fn add_branch(&self, name: &str) -> Result<(), Failure> {
        let number = self.branches.get() + 1;
        self.branches.set(number);
        let commits = &self.large.commits;
        let commit = &commits[(number * 37 + 5) % commits.len()];
        let branch = format!("refs/heads/bench/branch-{number}");
        git::run(&self.daemon.path(name), &["update-ref", &branch, commit]).await?;
        let url = self.ferrite.push_url(name);
        git::run(&self.large.source, &["push", "-q", &url, &format!("{commit}:{branch}")]).await.map(drop)
    }
}

/// Pushes branches and tags. Returns whether these are all refs.
///
/// Over HTTP, git compares every ref it pushes with all others. So with very many refs it pushes
/// only the default branch, if that contains all objects.
async fn push_all(ferrite: &Ferrite, source: &Path, name: &str) -> Result<bool, Failure> {
    let url = ferrite.push_url(name);
    let refs = git::text(source, &["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"]).await?;
    let beside = ["rev-list", "--objects", "--max-count=1", "--branches", "--tags", "--not", "HEAD"];
    if refs.lines().count() <= MAX_PUSHED_REFS || !git::text(source, &beside).await?.is_empty() {
        let all = ["push", "-q", &url, "refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];
        return git::run(source, &all).await.map(|_| true);
    }
    let branch = git::text(source, &["symbolic-ref", "HEAD"]).await?;
    git::run(source, &["push", "-q", &url, &branch]).await.map(|_| false)
}
