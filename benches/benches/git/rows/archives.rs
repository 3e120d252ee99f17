//! Archives.

use std::time::{Duration, Instant};

use ferrite_benches::{Failure, git};
use reqwest::Method;

use super::calls::used;
use crate::report::{Row, Sample, Series, cpu, mean_cpu};
use crate::servers::{LARGE, Servers, Side};

/// New archives, each of another commit, and cached ones.
pub(super) async fn archives(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (format, bar) in [("tar.gz", 0.9), ("zip", 0.75)] {
        let (mut cold, mut warm, mut git) = (Series::default(), Series::default(), Series::default());
        let (mut round, mut longest) = (0, Duration::ZERO);
        while round < servers.rounds(longest) {
            let commit = &servers.large.commits[round as usize * 3 % servers.large.commits.len()];
            let begin = Instant::now();
            let sample = measured(servers, Side::Ours, 1, async || download(servers, commit, format).await).await?;
            cold.push(sample);
            let repository = servers.daemon.path(LARGE);
            let arguments = ["archive", &format!("--format={format}"), "--output=/dev/null", commit];
            let sample =
                measured(servers, Side::Git, 1, async || git::run(&repository, &arguments).await.map(drop)).await?;
            git.push(sample);
            longest = longest.max(begin.elapsed() / 2);
            warm.push(measured(servers, Side::Ours, 5, async || download(servers, commit, format).await).await?);
            round += 1;
        }
        rows.push(Row::ratio(&format!("{format}, cold: CPU"), &cpu(&cold), &cpu(&git), bar));
        rows.push(Row::ratio(&format!("{format}, warm: CPU"), &mean_cpu(&warm), &mean_cpu(&git), 0.05));
    }
    Ok(rows)
}

async fn measured(
    servers: &Servers,
    side: Side,
    times: u32,
    work: impl AsyncFn() -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    let before = used(servers, side).await;
    let begin = Instant::now();
    for _ in 0..times {
        work().await?;
    }
    let wall = begin.elapsed() / times;
    Ok(Sample { wall, cpu: used(servers, side).await.saturating_sub(before) / times })
}

async fn download(servers: &Servers, commit: &str, format: &str) -> Result<(), Failure> {
    let path = servers.ferrite.repo(LARGE, &format!("/archive/{commit}.{format}"));
    let mut answer = servers.ferrite.api(Method::GET, &path).send().await?;
    if answer.status().as_u16() != 200 {
        return Err(format!("archive: {}", answer.status()).into());
    }
    while answer.chunk().await?.is_some() {}
    Ok(())
}
