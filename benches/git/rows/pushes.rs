//! Pushes: how long they take, what they cost in memory, and what many of them leave behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use super::WORN;
use crate::Failure;
use crate::command::{self, git};
use crate::report::{Row, Series, cpu, digits, mib, shown, wall};
use crate::shapes;
use crate::site::{LARGE, Side, Site};
use crate::usage::{Sampler, private};

/// A client's repository with `count` commits on top of the large one's default branch; their ids, the oldest first.
async fn client(site: &Site, count: u32) -> Result<(PathBuf, Vec<String>), Failure> {
    let folder = site.folder();
    let source = site.large.source.as_os_str();
    let options = ["clone", "-q", "--bare", "--shared"].map(AsRef::as_ref);
    command::run(site.work(), &[&options[..], &[source, folder.as_os_str()]].concat()).await?;
    let mut script = Vec::new();
    for number in 0..count {
        let time = 1_700_000_000 + number;
        writeln!(script, "commit refs/heads/work\ncommitter Bench <bench@example.com> {time} +0000\ndata 7\nChange\n")?;
        if number == 0 {
            writeln!(script, "from {}", site.large.commits[0])?;
        }
        let lines = |salt: u32| {
            (0..120).map(move |line| format!("line {line} of {}\n", if line == salt % 120 { salt } else { 0 }))
        };
        for (path, text) in [
            (site.large.file.clone(), lines(number).collect::<String>()),
            (format!("bench/file-{}.txt", number % 10), lines(number * 7).collect()),
        ] {
            writeln!(script, "M 100644 inline {path}\ndata {}\n{text}", text.len())?;
        }
    }
    let mut import = git(&folder, &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
    let mut stdin = import.stdin.take().ok_or("fast-import has no input")?;
    stdin.write_all(&script).await?;
    drop(stdin);
    let done = import.wait_with_output().await?;
    if !done.status.success() {
        return Err(format!("git fast-import: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    let range = format!("{}..work", site.large.commits[0]);
    let ids = command::text(&folder, &["rev-list", "--reverse", "--first-parent", &range]).await?;
    Ok((folder, ids.lines().map(str::to_owned).collect()))
}

/// Pushes of one commit and of fifty to a branch that is there.
pub(super) async fn pushes(site: &Site) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (size, bar) in [(1, 1.2), (50, 1.1)] {
        let (folder, ids) = client(site, size * (site.scale.rounds + 1)).await?;
        let branch = format!("refs/heads/pushed-{size}");
        let push = async |side: Side, round: u32| {
            let id = &ids[(size * (round + 1) - 1) as usize];
            let url = site.push_url(side, LARGE);
            command::run(&folder, &["push", "-q", &url, &format!("{id}:{branch}")]).await.map(drop)
        };
        for side in [Side::Ours, Side::Git] {
            push(side, 0).await?;
        }
        let (ours, git) = site.alternate(async |side, round| push(side, round + 1).await).await?;
        let commits = if size == 1 { "1 commit".to_owned() } else { format!("{size} commits") };
        rows.push(Row::ratio(&format!("push of {commits}: wall"), &wall(&ours), &wall(&git), bar));
        drop(std::fs::remove_dir_all(&folder));
    }
    Ok(rows)
}

/// The memory of git-svc itself while a large push comes in.
pub(super) async fn memory(site: &Site, cache: &Path) -> Result<Vec<Row>, Failure> {
    let source = shapes::heavy(cache, site.scale.heavy_mib)?;
    site.ferrite.new_repository("heavy").await?;
    site.ferrite.processes().settled().await;
    let process = site.ferrite.git_svc();
    let idle = private(process).ok_or("git-svc is gone")?;
    let sampler = Sampler::start(process, site.ferrite.processes().root());
    let url = site.ferrite.push_url("heavy");
    let pushed =
        site.measure(Side::Ours, async { command::run(&source, &["push", "-q", &url, "main"]).await.map(drop) });
    let pushed = pushed.await;
    let peak = sampler.peak();
    let sample = pushed?;
    let above = mib(peak.own.all.saturating_sub(idle.all));
    let case = format!("push of {} MiB: peak private memory of git-svc, without children", site.scale.heavy_mib);
    let text = format!(
        "{} idle, peak {}; all processes {} MiB; {} ms",
        shown(idle),
        shown(peak.own),
        digits(mib(peak.tree)),
        digits(sample.wall.as_secs_f64() * 1e3)
    );
    Ok(vec![Row::limit(&case, text, format!("+{} MiB", digits(above)), "<= 32 MiB above idle", above <= 32.0)])
}

/// Clones of a repository as upkeep packed it, and after many pushes, as upkeep finds time for it.
pub(super) async fn worn(site: &Site) -> Result<Vec<Row>, Failure> {
    let rounds = site.scale.rounds.min(3);
    let clones = async || {
        let mut series = Series::default();
        for _ in 0..rounds {
            site.nudge(WORN).await?;
            series.push(site.measure(Side::Ours, site.clone(Side::Ours, WORN)).await?);
        }
        Ok::<_, Failure>(series)
    };
    let fresh = clones().await?;
    let (folder, ids) = client(site, site.scale.pushes).await?;
    let url = site.ferrite.push_url(WORN);
    for id in &ids {
        command::run(&folder, &["push", "-q", &url, &format!("{id}:refs/heads/work")]).await?;
    }
    drop(std::fs::remove_dir_all(&folder));
    let after = clones().await?;
    let case = format!("clone after {} pushes, against freshly packed: server CPU", ids.len());
    Ok(vec![Row::ratio(&case, &cpu(&after), &cpu(&fresh).after("ours, packed: "), 2.0)])
}
