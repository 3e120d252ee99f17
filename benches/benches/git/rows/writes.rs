//! Commits through the API.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_benches::Failure;
use ferrite_benches::git::{self, finish, git};
use ferrite_benches::installation::json_of;
use reqwest::Method;
use serde_json::json;

use super::tree;
use crate::daemon::SETTINGS;
use crate::report::{Figure, Row, Sample, Series, wall};
use crate::servers::{LARGE, Servers, Side};
use crate::shapes;

/// A new file in an existing folder, durable when the response arrives. Compared with two fsyncs,
/// and with a commit in a work tree.
pub(super) async fn put(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let (mut ours, mut disk, mut git) = (Series::default(), Series::default(), Series::default());
    let folder = servers.large.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    for _ in 0..3 {
        add(servers, LARGE, folder).await?;
    }
    let (mut round, mut longest) = (0, Duration::ZERO);
    while round < servers.rounds(longest) {
        for _ in 0..3 {
            disk.push(twice_synced(servers.work())?);
            ours.push(servers.measure(Side::Ours, add(servers, LARGE, folder)).await?);
        }
        let begin = Instant::now();
        by_work_tree(servers, round).await?;
        let wall = begin.elapsed();
        longest = longest.max(wall);
        git.push(Sample { wall, cpu: Duration::ZERO });
        round += 1;
    }
    let shown = |series: &Series, what| Figure::ms(series.wall(), what).with(&format!(", n={}", series.len()));
    Ok(vec![
        Row::ratio(
            "PUT contents, against two fsyncs of this disk: wall",
            &wall(&ours),
            &shown(&disk, "two fsyncs "),
            2.0,
        ),
        Row::ratio("PUT contents, against checkout, commit, push: wall", &wall(&ours), &shown(&git, "all three "), 0.1),
    ])
}

/// New files in small and large trees.
pub(super) async fn sizes(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let mut smallest = None;
    for files in &servers.scale.trees {
        let name = tree(*files);
        let path = shapes::path(files / 2);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut series = Series::default();
        add(servers, &name, folder).await?;
        for _ in 0..servers.scale.rounds {
            series.push(servers.measure(Side::Ours, add(servers, &name, folder)).await?);
        }
        let base = *smallest.get_or_insert(series.wall());
        let value = format!("{:.2}x of the first", series.wall() / base.max(0.001));
        let case = format!("PUT contents in a tree of {files} files: wall");
        rows.push(Row::plain(&case, wall(&series).to_string(), "-", &value));
    }
    Ok(rows)
}

async fn add(servers: &Servers, repository: &str, folder: &str) -> Result<(), Failure> {
    let name = format!("put-{}.txt", hex::encode(rand::random::<[u8; 6]>()));
    let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
    let path = servers.ferrite.repo(repository, &format!("/contents/{path}"));
    let body = json!({ "message": "Add a file", "content": STANDARD.encode("a few lines\n".repeat(40)) });
    json_of(servers.ferrite.api(Method::PUT, &path).json(&body), 201).await.map(drop)
}

/// Writes and syncs two files, one after the other.
fn twice_synced(folder: &Path) -> Result<Sample, Failure> {
    let begin = Instant::now();
    for number in 0..2 {
        let path = folder.join(format!("synced-{number}-{}", hex::encode(rand::random::<[u8; 6]>())));
        let mut file = File::create_new(&path)?;
        file.write_all(&[b'x'; 480])?;
        file.sync_all()?;
        std::fs::remove_file(path)?;
    }
    Ok(Sample { wall: begin.elapsed(), cpu: Duration::ZERO })
}

/// Commits a file without Ferrite: in a work tree of the branch, pushed to the repository.
async fn by_work_tree(servers: &Servers, round: u32) -> Result<(), Failure> {
    let (folder, repository) = (servers.folder(), servers.daemon.path(LARGE));
    let options = ["clone", "-q", "--shared", "--single-branch", "--branch", &servers.large.branch].map(AsRef::as_ref);
    git::run(servers.work(), &[&options[..], &[repository.as_os_str(), folder.as_os_str()]].concat()).await?;
    std::fs::write(folder.join(format!("put-{round}.txt")), "a few lines\n".repeat(40))?;
    git::run(&folder, &["add", &format!("put-{round}.txt")]).await?;
    git::run(&folder, &["commit", "-q", "-m", "Add a file"]).await?;
    // `receive-pack` uses the same settings as the daemon.
    let config = servers.work().join("receive.config");
    std::fs::write(&config, SETTINGS)?;
    let mut push = git(&folder, &["push", "-q", "origin", "HEAD"]);
    push.env("GIT_CONFIG_GLOBAL", &config);
    finish(push).await?;
    drop(std::fs::remove_dir_all(&folder));
    Ok(())
}
