use std::time::Instant;

use ferrite_benches::processes::own_children;
use ferrite_benches::{Failure, percentile};

use crate::report::{Sample, Series};
use crate::servers::{Servers, Side};

/// Measures calls of Ferrite and processes of git alternately. A sample is a round: the median wall
/// time, and CPU time per call.
pub(super) async fn calls(
    servers: &Servers,
    work: impl AsyncFn(Side) -> Result<(), Failure>,
) -> Result<(Series, Series), Failure> {
    let (mut ours, mut git) = (Series::default(), Series::default());
    for side in [Side::Ours, Side::Git] {
        for _ in 0..servers.scale.calls {
            work(side).await?;
        }
    }
    for _ in 0..servers.scale.rounds {
        ours.push(round(servers, Side::Ours, &work).await?);
        git.push(round(servers, Side::Git, &work).await?);
    }
    Ok((ours, git))
}

async fn round(
    servers: &Servers,
    side: Side,
    work: &impl AsyncFn(Side) -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    let count = servers.scale.calls;
    let before = used(servers, side).await;
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        work(side).await?;
        times.push(begin.elapsed());
    }
    let cpu = used(servers, side).await.saturating_sub(before) / count;
    times.sort_unstable();
    Ok(Sample { wall: percentile(&times, 50), cpu })
}

/// CPU time of the service, or of the git processes started by this process.
pub(super) async fn used(servers: &Servers, side: Side) -> std::time::Duration {
    match side {
        Side::Ours => servers.ferrite.processes().settled().await,
        Side::Git => own_children(),
    }
}
