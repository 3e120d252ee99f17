//! Clients that write on a schedule: each repository gets its writes on time, however long the
//! previous one took.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::history::Random;

use crate::clients::Client;

/// One in this many writes is a push, the others go through the API.
const WRITES_PER_PUSH: u64 = 4;

/// The repositories that a client writes to, and when.
pub(crate) struct Schedule {
    /// Repositories with their work trees.
    pub(crate) repositories: Vec<(usize, PathBuf)>,
    /// Interval between writes to one repository.
    pub(crate) interval: Duration,
    /// Time until this client's first write, so that clients alternate.
    pub(crate) offset: Duration,
    pub(crate) branch: String,
}

/// Writes to each repository of a schedule in turn. An overdue write starts immediately. A failed
/// push is recorded, other failures of git are returned.
pub(crate) async fn run(client: Client, schedule: Schedule) -> Result<(), Failure> {
    let Schedule { repositories, interval, offset, branch } = schedule;
    let (mut random, begin) = (Random::new(client.number), Instant::now());
    let step = interval / u32::try_from(repositories.len())?.max(1);
    let mut due = begin + offset;
    for turn in 1_u64.. {
        for (repository, tree) in &repositories {
            if client.record.is_over() {
                return Ok(());
            }
            tokio::time::sleep_until(due.into()).await;
            client.record.note_lateness(due.elapsed());
            if (turn + *repository as u64).is_multiple_of(WRITES_PER_PUSH) {
                client.push(*repository, tree, &branch, &mut random).await?;
            } else {
                client.put(*repository, &mut random, turn).await;
            }
            due += step;
        }
    }
    Ok(())
}
