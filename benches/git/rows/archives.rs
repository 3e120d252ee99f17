//! A commit as one file.

use std::time::{Duration, Instant};

use reqwest::Method;

use super::calls::used;
use crate::Failure;
use crate::command;
use crate::report::{Row, Sample, Series, cpu, mean_cpu};
use crate::site::{LARGE, Side, Site};

/// New archives, each of another commit, and the same ones again.
pub(super) async fn archives(site: &Site) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (format, bar) in [("tar.gz", 0.9), ("zip", 0.75)] {
        let (mut cold, mut warm, mut git) = (Series::default(), Series::default(), Series::default());
        let (mut round, mut longest) = (0, Duration::ZERO);
        while round < site.rounds(longest) {
            let commit = &site.large.commits[round as usize * 3 % site.large.commits.len()];
            let begin = Instant::now();
            let sample = measured(site, Side::Ours, 1, async || download(site, commit, format).await).await?;
            cold.push(sample);
            let repository = site.daemon.path(LARGE);
            let arguments = ["archive", &format!("--format={format}"), "--output=/dev/null", commit];
            let sample =
                measured(site, Side::Git, 1, async || command::run(&repository, &arguments).await.map(drop)).await?;
            git.push(sample);
            longest = longest.max(begin.elapsed() / 2);
            warm.push(measured(site, Side::Ours, 5, async || download(site, commit, format).await).await?);
            round += 1;
        }
        rows.push(Row::ratio(&format!("{format}, cold: CPU"), &cpu(&cold), &cpu(&git), bar));
        rows.push(Row::ratio(&format!("{format}, warm: CPU"), &mean_cpu(&warm), &mean_cpu(&git), 0.05));
    }
    Ok(rows)
}

async fn measured(
    site: &Site,
    side: Side,
    times: u32,
    work: impl AsyncFn() -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    let before = used(site, side).await;
    let begin = Instant::now();
    for _ in 0..times {
        work().await?;
    }
    let wall = begin.elapsed() / times;
    Ok(Sample { wall, cpu: used(site, side).await.saturating_sub(before) / times })
}

/// Reads an archive and keeps nothing.
async fn download(site: &Site, commit: &str, format: &str) -> Result<(), Failure> {
    let path = site.ferrite.repo(LARGE, &format!("/archive/{commit}.{format}"));
    let mut answer = site.ferrite.api(Method::GET, &path).send().await?;
    if answer.status().as_u16() != 200 {
        return Err(format!("archive: {}", answer.status()).into());
    }
    while answer.chunk().await?.is_some() {}
    Ok(())
}
