//! A turn that is given back while nothing happens: a client may stay for long and do little, and others are to be served
//! meanwhile.

use std::time::Duration;

use ferrite_proto::id::RepositoryId;
use tokio::{sync::Mutex, time::Instant};

use super::{
    gates::{Client, Gate, Turn},
    pace::Pace,
    transfer::Progress,
};
use crate::error::GitError;

/// A process that moves no byte for this long waits for its client. git shows every five seconds that it works.
const QUIET: Duration = Duration::from_secs(7);
/// Between two attempts when too many wait already.
const AGAIN: Duration = Duration::from_secs(1);

/// A place at a gate, and the turn while there is work.
pub(super) struct Seat<'a> {
    gate: &'a Gate,
    repository: RepositoryId,
    client: Client,
    turn: Mutex<Option<Turn>>,
    quiet: Duration,
}

impl<'a> Seat<'a> {
    /// A seat with a turn.
    pub(super) fn new(gate: &'a Gate, repository: RepositoryId, client: Client, turn: Turn) -> Self {
        Self { gate, repository, client, turn: Mutex::new(Some(turn)), quiet: QUIET }
    }

    /// Takes a turn if there is none, however long that takes.
    pub(super) async fn sit(&self) {
        let mut turn = self.turn.lock().await;
        while turn.is_none() {
            match self.gate.enter(self.repository, &self.client).await {
                Ok(taken) => *turn = Some(taken),
                Err(GitError::Overloaded | _) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Takes a turn for what a client sent; one that drips stands in line again.
    pub(super) async fn sit_for(&self, pace: &mut Pace, asked: Instant, bytes: usize) {
        pace.waited(asked.elapsed());
        pace.moved(bytes);
        if pace.is_slow() {
            pace.forgive();
            *self.turn.lock().await = None;
        }
        self.sit().await;
    }

    /// Gives the turn back whenever nothing moves; never returns.
    pub(super) async fn leave_when_quiet(&self, progress: &Progress) -> std::convert::Infallible {
        loop {
            progress.stalled(self.quiet).await;
            // Held by somebody who waits for a turn: then there is none to give back.
            if let Ok(mut turn) = self.turn.try_lock() {
                *turn = None;
            }
            tokio::time::sleep(self.quiet).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_free(gate: &Gate) -> bool {
        tokio::time::timeout(Duration::from_millis(20), gate.enter(RepositoryId(2), &Client::User(2))).await.is_ok()
    }

    #[tokio::test]
    async fn a_quiet_process_gives_its_turn_back_and_takes_another() {
        let gate = Gate::new("test", 1, 1);
        let turn = gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap();
        let seat =
            Seat { quiet: Duration::from_millis(50), ..Seat::new(&gate, RepositoryId(1), Client::User(1), turn) };
        let progress = Progress::new();
        assert!(!is_free(&gate).await);
        let quiet = seat.leave_when_quiet(&progress);
        assert!(tokio::time::timeout(Duration::from_millis(200), quiet).await.is_err());
        assert!(is_free(&gate).await);
        seat.sit().await;
        assert!(!is_free(&gate).await);
    }

    #[tokio::test]
    async fn a_client_that_drips_stands_in_line_again() {
        let gate = Gate::new("test", 1, 1);
        let turn = gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap();
        let seat = Seat::new(&gate, RepositoryId(1), Client::User(1), turn);
        let mut other = Box::pin(gate.enter(RepositoryId(2), &Client::User(2)));
        assert!(futures_util::poll!(&mut other).is_pending());
        let mut pace = Pace::new(Duration::from_secs(1), 1024);
        pace.waited(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut own = Box::pin(seat.sit_for(&mut pace, Instant::now() - Duration::from_millis(5), 1));
        assert!(futures_util::poll!(&mut own).is_pending());
        let theirs = other.await.unwrap();
        drop(theirs);
        own.await;
    }
}
