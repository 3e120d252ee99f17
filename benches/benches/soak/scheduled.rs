//! Clients that write by a schedule: each repository gets a write at its times, however long the one before took.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::history::Random;

use crate::clients::Client;

/// One write in this many is a push, the others are by API.
const WRITES_PER_PUSH: u64 = 4;

/// The repositories that one client writes to, and when.
pub(crate) struct Schedule {
    /// Repositories, with a work tree of each.
    pub(crate) repositories: Vec<(usize, PathBuf)>,
    /// Time between two writes to one repository.
    pub(crate) interval: Duration,
    /// Time until the first write of this client, so that clients take turns.
    pub(crate) offset: Duration,
    pub(crate) branch: String,
}

/// Writes to each repository of a schedule in turn. A write whose time has passed is made at once.
///
/// # Errors
/// If git fails at something other than a push.
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
