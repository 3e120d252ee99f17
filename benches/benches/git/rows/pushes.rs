//! Pushes: their time, their memory, and clones after many of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ferrite_benches::Failure;
use ferrite_benches::git::{self, git};
use ferrite_benches::memory::private;
use tokio::io::AsyncWriteExt;

use super::OFTEN_PUSHED;
use crate::memory::Sampler;
use crate::report::{Row, Series, cpu, digits, mib, shown, wall};
use crate::servers::{LARGE, Servers, Side};
use crate::shapes;

/// Creates a client repository with `count` commits on top of the large one's default branch.
/// Returns their ids, oldest first.
async fn client(servers: &Servers, count: u32) -> Result<(PathBuf, Vec<String>), Failure> {
    let folder = servers.folder();
    let source = servers.large.source.as_os_str();
    let options = ["clone", "-q", "--bare", "--shared"].map(AsRef::as_ref);
    git::run(servers.work(), &[&options[..], &[source, folder.as_os_str()]].concat()).await?;
    let mut script = Vec::new();
    for number in 0..count {
        let time = 1_700_000_000 + number;
        writeln!(script, "commit refs/heads/work\ncommitter Bench <bench@example.com> {time} +0000\ndata 7\nChange\n")?;
        if number == 0 {
            writeln!(script, "from {}", servers.large.commits[0])?;
        }
        let lines = |salt: u32| {
            (0..120).map(move |line| format!("line {line} of {}\n", if line == salt % 120 { salt } else { 0 }))
        };
        for (path, text) in [
            (servers.large.file.clone(), lines(number).collect::<String>()),
            (format!("bench/file-{}.txt", number % 10), lines(number * 7).collect()),
        ] {
            writeln!(script, "M 100644 inline {path}\ndata {}\n{text}", text.len())?;
        }
    }
    let mut import = git(&folder, &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
    let mut stdin = import.stdin.take().ok_or("the input of fast-import is closed")?;
    stdin.write_all(&script).await?;
    drop(stdin);
    let done = import.wait_with_output().await?;
    if !done.status.success() {
        return Err(format!("git fast-import: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    let range = format!("{}..work", servers.large.commits[0]);
    let ids = git::text(&folder, &["rev-list", "--reverse", "--first-parent", &range]).await?;
    Ok((folder, ids.lines().map(str::to_owned).collect()))
}

/// Pushes of one commit and of fifty to an existing branch.
pub(super) async fn pushes(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (size, bar) in [(1, 1.2), (50, 1.1)] {
        let (folder, ids) = client(servers, size * (servers.scale.rounds + 1)).await?;
        let branch = format!("refs/heads/pushed-{size}");
        let push = async |side: Side, round: u32| {
            let id = &ids[(size * (round + 1) - 1) as usize];
            let url = servers.push_url(side, LARGE);
            git::run(&folder, &["push", "-q", &url, &format!("{id}:{branch}")]).await.map(drop)
        };
        for side in [Side::Ours, Side::Git] {
            push(side, 0).await?;
        }
        let (ours, git) = servers.alternate(async |side, round| push(side, round + 1).await).await?;
        let commits = if size == 1 { "1 commit".to_owned() } else { format!("{size} commits") };
        rows.push(Row::ratio(&format!("push of {commits}: wall"), &wall(&ours), &wall(&git), bar));
        drop(std::fs::remove_dir_all(&folder));
    }
    Ok(rows)
}

/// Memory of git-svc without its children during a large push.
pub(super) async fn memory(servers: &Servers, cache: &Path) -> Result<Vec<Row>, Failure> {
    let source = shapes::heavy(cache, servers.scale.heavy_mib)?;
    servers.ferrite.new_repository("heavy").await?;
    servers.ferrite.processes().settled().await;
    let process = servers.ferrite.git_svc();
    let idle = private(process).ok_or("git-svc is gone")?;
    let sampler = Sampler::start(process, servers.ferrite.processes().root());
    let url = servers.ferrite.push_url("heavy");
    let pushed =
        servers.measure(Side::Ours, async { git::run(&source, &["push", "-q", &url, "main"]).await.map(drop) });
    let pushed = pushed.await;
    let peak = sampler.peak();
    let sample = pushed?;
    let above = mib(peak.own.all.saturating_sub(idle.all));
    let case = format!("push of {} MiB: peak private memory of git-svc, without children", servers.scale.heavy_mib);
    let text = format!(
        "{} idle, peak {}; all processes {} MiB; {} ms",
        shown(idle),
        shown(peak.own),
        digits(mib(peak.tree)),
        digits(sample.wall.as_secs_f64() * 1e3)
    );
    Ok(vec![Row::limit(&case, text, format!("+{} MiB", digits(above)), "<= 32 MiB above idle", above <= 32.0)])
}

/// Clones of a repository after maintenance packed it, and after many pushes with maintenance in
/// the background.
pub(super) async fn after_pushes(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let rounds = servers.scale.rounds.min(3);
    let clones = async || {
        let mut series = Series::default();
        for _ in 0..rounds {
            servers.add_branch(OFTEN_PUSHED).await?;
            series.push(servers.measure(Side::Ours, servers.clone(Side::Ours, OFTEN_PUSHED)).await?);
        }
        Ok::<_, Failure>(series)
    };
    let fresh = clones().await?;
    let (folder, ids) = client(servers, servers.scale.pushes).await?;
    let url = servers.ferrite.push_url(OFTEN_PUSHED);
    for id in &ids {
        git::run(&folder, &["push", "-q", &url, &format!("{id}:refs/heads/work")]).await?;
    }
    drop(std::fs::remove_dir_all(&folder));
    let after = clones().await?;
    let case = format!("clone after {} pushes, against freshly packed: server CPU", ids.len());
    Ok(vec![Row::ratio(&case, &cpu(&after), &cpu(&fresh).after("ours, packed: "), 2.0)])
}
