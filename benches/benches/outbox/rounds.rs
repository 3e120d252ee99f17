//! Claims and marks, one after the other, without deliveries.

use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_core::{Clock, Secret};
use ferrite_db::Db;
use ferrite_events::{ClaimRequest, Settlement, claim, settle_and_claim};

use crate::backlog::{self, AWAY, Shape};

const LEASE_US: i64 = 20_000_000;
/// Claims before the measurement, which prepare the statements.
const WARM_UP: u32 = 4;
/// Claims per backlog of the smallest size, which shrinks by at most half.
const MAX_CLAIMS_PER_THOUSAND: i64 = 8;

#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) claims: Vec<Duration>,
    pub(crate) marks: Vec<Duration>,
}

/// Claims and marks `count` times. Refills the backlog when half of it is gone.
pub(crate) async fn measure(db: &Db, url: &Secret, shape: Shape, size: i64, count: u32) -> Result<Times, Failure> {
    let clock = Clock::system();
    let mut times = Times::default();
    let mut left = size / 1_000 * MAX_CLAIMS_PER_THOUSAND;
    for number in 0..count + WARM_UP {
        if left == 0 {
            backlog::fill(db, url, shape, size).await?;
            left = size / 1_000 * MAX_CLAIMS_PER_THOUSAND;
        }
        left -= 1;
        let now = clock.now_us();
        let request = ClaimRequest::new(now, now + LEASE_US);
        let begin = Instant::now();
        let lanes = claim(db, AWAY, &request).await?;
        let claimed = begin.elapsed();
        if lanes.is_empty() {
            return Err("nothing was claimed".into());
        }
        let mut settlement = Settlement::default();
        lanes.iter().for_each(|lane| settlement.delivered(lane, clock.now_us()));
        let nothing = ClaimRequest::nothing(clock.now_us());
        let begin = Instant::now();
        settle_and_claim(db, AWAY, Some(&settlement), &nothing).await?;
        if number >= WARM_UP {
            times.claims.push(claimed);
            times.marks.push(begin.elapsed());
        }
    }
    Ok(times)
}
