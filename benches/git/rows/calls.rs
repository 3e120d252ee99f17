//! Short calls, many in a round.

use std::time::Instant;

use crate::Failure;
use crate::report::{Sample, Series};
use crate::site::{Side, Site};
use crate::usage::own_children;

/// Calls of ours and processes of git in turn. Of each round: the median wall time, and CPU time per call.
pub(super) async fn calls(
    site: &Site,
    work: impl AsyncFn(Side) -> Result<(), Failure>,
) -> Result<(Series, Series), Failure> {
    let (mut ours, mut git) = (Series::default(), Series::default());
    for side in [Side::Ours, Side::Git] {
        for _ in 0..site.scale.calls {
            work(side).await?;
        }
    }
    for _ in 0..site.scale.rounds {
        ours.push(round(site, Side::Ours, &work).await?);
        git.push(round(site, Side::Git, &work).await?);
    }
    Ok((ours, git))
}

async fn round(site: &Site, side: Side, work: &impl AsyncFn(Side) -> Result<(), Failure>) -> Result<Sample, Failure> {
    let count = site.scale.calls;
    let before = used(site, side).await;
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        work(side).await?;
        times.push(begin.elapsed());
    }
    let cpu = used(site, side).await.saturating_sub(before) / count;
    times.sort_unstable();
    Ok(Sample { wall: times.get(times.len() / 2).copied().unwrap_or_default(), cpu })
}

/// CPU time of the service, or of the git processes that this one started.
pub(super) async fn used(site: &Site, side: Side) -> std::time::Duration {
    match side {
        Side::Ours => site.ferrite.processes().settled().await,
        Side::Git => own_children(),
    }
}
