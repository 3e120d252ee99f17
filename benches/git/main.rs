//! What the design promises about git, measured against plain git on the same machine, in turn.
//!
//!   cargo bench --bench git                      everything, which takes the better part of an hour
//!   cargo bench --bench git -- clone push        some rows
//!   cargo bench --bench git -- --repository /path/to/bare.git
//!
//! The service is the shipped binary, `ferrite up` on SQLite with its usual settings. `docs/benchmarks.md` says what each row is.
//! Without `--bench`, as `cargo test` runs it, everything happens once and small, so that it goes on working.

mod command;
mod daemon;
mod history;
mod report;
mod rows;
mod server;
mod shapes;
mod site;
mod usage;
mod wire;

use std::path::{Path, PathBuf};

use clap::Parser;

use report::Row;
use rows::Group;
use site::{LARGE, Large, Scale, Site, Wanted};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How names of folders begin that nobody needs afterwards.
const PASSING: &str = "passing-";

/// git through Ferrite and without it.
#[derive(Debug, Parser)]
struct Args {
    /// Groups of rows; all if there are none.
    #[arg(value_enum)]
    groups: Vec<Group>,

    /// Measure on this repository instead of a generated one; it is copied, not changed.
    #[arg(long)]
    repository: Option<PathBuf>,

    /// Commits of the generated repository.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..))]
    commits: u64,

    /// Files of the generated repository.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(20..))]
    files: u64,

    /// Rounds of each row; rows that take long have fewer.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// What cargo says when it measures, and not when it tests.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn scale(&self) -> Scale {
        if self.bench {
            return Scale {
                rounds: self.rounds,
                calls: 20,
                pushes: 500,
                clones: 200,
                memory_clones: 64,
                heavy_mib: 250,
                refs: 50_000,
                trees: vec![100, 10_000, 100_000],
            };
        }
        Scale {
            rounds: 1,
            calls: 2,
            pushes: 3,
            clones: 4,
            memory_clones: 2,
            heavy_mib: 4,
            refs: 300,
            trees: vec![100, 1_000],
        }
    }

    /// The repositories that the chosen groups need.
    fn wanted(&self, groups: &[Group], scale: &Scale, cache: &Path, work: &Path) -> Result<Vec<Wanted>, Failure> {
        let (commits, files) = if self.bench { (self.commits, self.files) } else { (120, 40) };
        let large = match &self.repository {
            Some(path) => {
                let copy = work.join("source.git");
                history::copied(path, &copy)?;
                copy
            }
            None => history::large(cache, commits, files)?,
        };
        let mut wanted = vec![Wanted { name: LARGE.into(), source: large.clone() }];
        if groups.contains(&Group::AfterPushes) {
            wanted.push(Wanted { name: rows::WORN.into(), source: large });
        }
        if groups.contains(&Group::Branches) {
            wanted.push(Wanted { name: rows::MANY.into(), source: shapes::many_refs(cache, scale.refs)? });
        }
        if groups.contains(&Group::PutSizes) {
            for files in &scale.trees {
                wanted.push(Wanted { name: rows::tree(*files), source: shapes::tree(cache, *files)? });
            }
        }
        Ok(wanted)
    }
}

async fn measure(
    groups: &[Group],
    wanted: &[Wanted],
    (scale, cache, work): (Scale, &Path, &Path),
) -> Result<Vec<Row>, Failure> {
    let large = Large::look(&wanted[0].source).await?;
    let site = Site::start(work, wanted, large, scale).await?;
    let mut failed = Vec::new();
    report::head();
    for group in groups {
        match group.measure(&site, cache).await {
            Ok(rows) => rows.iter().for_each(report::print),
            Err(error) => {
                eprintln!("{group:?}: {error}\n{}", site.ferrite.complaints());
                let row = Row::failed(&format!("{group:?}"), &error.to_string());
                report::print(&row);
                failed.push(row);
            }
        }
    }
    Ok(failed)
}

/// Beside what cargo builds: repositories take long to make. What a bench left there that was killed is removed.
fn cache() -> Result<PathBuf, Failure> {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let cache = tmp.parent().ok_or("there is no target folder")?.join("bench-git");
    std::fs::create_dir_all(&cache)?;
    for entry in std::fs::read_dir(&cache)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PASSING).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(cache)
}

/// A new folder in the cache, for as long as this process runs.
fn passing(cache: &Path) -> Result<tempfile::TempDir, Failure> {
    Ok(tempfile::Builder::new().prefix(&format!("{PASSING}{}-", std::process::id())).tempdir_in(cache)?)
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let groups = if args.groups.is_empty() { Group::ALL.to_vec() } else { args.groups.clone() };
    let (cache, scale) = (cache()?, args.scale());
    let work = passing(&cache)?;
    let wanted = args.wanted(&groups, &scale, &cache, work.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let failed = runtime.block_on(measure(&groups, &wanted, (scale, &cache, work.path())))?;
    // Bars are for reading; that it still runs is a test.
    if args.bench || failed.is_empty() { Ok(()) } else { Err(format!("{} groups failed", failed.len()).into()) }
}
