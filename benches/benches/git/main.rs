//! The design's promises about git, compared with plain git on the same machine.
//!
//!     make bench-git                    every row, which takes most of an hour
//!     make bench-git ROWS="clone push"  some rows
//!     make bench-git REPO=/path/to/bare.git
//!
//! Measures the release binary, `ferrite up` on SQLite with default settings. `docs/benchmarks.md`
//! describes the rows. Without `--bench`, as in `cargo test --benches`, every row runs once on
//! small repositories, as a test of the bench.

mod daemon;
mod large;
mod memory;
mod report;
mod rows;
mod server;
mod servers;
mod shapes;
mod wire;

use std::path::{Path, PathBuf};

use clap::Parser;
use ferrite_benches::history::{cache, copied, temporary};
use ferrite_benches::{Failure, block_on};

use report::Row;
use rows::Group;
use servers::{LARGE, Large, Scale, Servers, Source};

/// git through Ferrite and without it.
#[derive(Debug, Parser)]
struct Args {
    /// Groups of rows; all by default.
    #[arg(value_enum)]
    groups: Vec<Group>,

    /// Repository to measure instead of a generated one; it is copied, not changed.
    #[arg(long)]
    repository: Option<PathBuf>,

    /// Commits of the generated repository.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..))]
    commits: u64,

    /// Files of the generated repository.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(20..))]
    files: u64,

    /// Rounds of each row; slow rows have fewer.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Passed by `cargo bench`, but not by `cargo test`.
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
                clones: vec![200, 500],
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
            clones: vec![4],
            memory_clones: 2,
            heavy_mib: 4,
            refs: 300,
            trees: vec![100, 1_000],
        }
    }

    /// Creates the repositories that the groups need.
    fn sources(&self, groups: &[Group], scale: &Scale, cache: &Path, work: &Path) -> Result<Vec<Source>, Failure> {
        let (commits, files) = if self.bench { (self.commits, self.files) } else { (120, 40) };
        let large = match &self.repository {
            Some(path) => {
                let copy = work.join("source.git");
                copied(path, &copy)?;
                copy
            }
            None => large::large(cache, commits, files)?,
        };
        let mut sources = vec![Source { name: LARGE.into(), path: large.clone() }];
        if groups.contains(&Group::AfterPushes) {
            sources.push(Source { name: rows::OFTEN_PUSHED.into(), path: large });
        }
        if groups.contains(&Group::Branches) {
            sources.push(Source { name: rows::MANY_REFS.into(), path: shapes::many_refs(cache, scale.refs)? });
        }
        if groups.contains(&Group::PutSizes) {
            for files in &scale.trees {
                sources.push(Source { name: rows::tree(*files), path: shapes::tree(cache, *files)? });
            }
        }
        Ok(sources)
    }
}

async fn measure(
    groups: &[Group],
    sources: &[Source],
    (scale, cache, work): (Scale, &Path, &Path),
) -> Result<Vec<Row>, Failure> {
    let large = Large::inspect(&sources[0].path).await?;
    let servers = Servers::start(work, sources, large, scale).await?;
    let mut failed = Vec::new();
    report::head();
    for group in groups {
        match group.measure(&servers, cache).await {
            Ok(rows) => rows.iter().for_each(report::print),
            Err(error) => {
                eprintln!("{group:?}: {error}\n{}", servers.ferrite.warnings());
                let row = Row::failed(&format!("{group:?}"), &error.to_string());
                report::print(&row);
                failed.push(row);
            }
        }
    }
    Ok(failed)
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let groups = if args.groups.is_empty() { Group::ALL.to_vec() } else { args.groups.clone() };
    let (cache, scale) = (cache(env!("CARGO_TARGET_TMPDIR"))?, args.scale());
    let work = temporary(&cache)?;
    let sources = args.sources(&groups, &scale, &cache, work.path())?;
    let failed = block_on(measure(&groups, &sources, (scale, &cache, work.path())))?;
    // A missed bar does not fail the bench; a test must run without failures.
    if args.bench || failed.is_empty() { Ok(()) } else { Err(format!("{} groups failed", failed.len()).into()) }
}
