//! Clones and fetches.

use std::time::{Duration, Instant};

use ferrite_benches::{Failure, git};

use crate::report::{Row, Series, cpu, mean_cpu, wall};
use crate::servers::{LARGE, Servers, Side};

/// Clones that need a new pack, and the same ones a second and third time.
pub(super) async fn clones(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let [mut first, mut second, mut third, mut git] = [(); 4].map(|()| Series::default());
    let (mut round, mut longest) = (0, Duration::ZERO);
    while round < servers.rounds(longest) {
        servers.add_branch(LARGE).await?;
        for (series, side) in
            [(&mut first, Side::Ours), (&mut git, Side::Git), (&mut second, Side::Ours), (&mut third, Side::Ours)]
        {
            let sample = servers.measure(side, servers.clone(side, LARGE)).await?;
            longest = longest.max(sample.wall);
            series.push(sample);
        }
        round += 1;
    }
    Ok(vec![
        Row::ratio("clone: wall", &wall(&first), &wall(&git), 1.15),
        Row::ratio("clone: server CPU", &cpu(&first), &cpu(&git), 1.25),
        Row::ratio("clone, second time within 5 min: server CPU", &cpu(&second), &cpu(&git), 0.35),
        Row::ratio("clone, third time within 5 min: server CPU", &cpu(&third), &cpu(&git), 0.35),
    ])
}

/// Fetches into an up-to-date mirror.
pub(super) async fn nothing_new(servers: &Servers) -> Result<Vec<Row>, Failure> {
    let folders = [(Side::Ours, servers.folder()), (Side::Git, servers.folder())];
    for (side, folder) in &folders {
        let url = servers.url(*side, LARGE);
        git::run(
            servers.work(),
            &["clone".as_ref(), "-q".as_ref(), "--mirror".as_ref(), url.as_ref(), folder.as_os_str()],
        )
        .await?;
    }
    let calls = servers.scale.calls;
    let begin = Instant::now();
    let (ours, git) = servers
        .alternate(async |side, _| {
            let folder = folders.iter().find(|(of, _)| *of == side).map(|(_, folder)| folder).ok_or("no mirror")?;
            for _ in 0..calls {
                git::run(folder, &["fetch", "-q"]).await?;
            }
            Ok(())
        })
        .await?;
    eprintln!("fetch: {:.1} s", begin.elapsed().as_secs_f64());
    folders.iter().for_each(|(_, folder)| drop(std::fs::remove_dir_all(folder)));
    let (ours, git) = (ours.divided(calls), git.divided(calls));
    Ok(vec![
        Row::ratio("fetch with nothing new: server CPU", &mean_cpu(&ours), &mean_cpu(&git), 0.3),
        Row::compared("fetch with nothing new: wall", &wall(&ours), &wall(&git)),
    ])
}
