//! What writers and the task of a subscriber leave to each other: lanes that a writer has claimed for the task, and outcomes of deliveries
//! that a writer may record in its own transaction.
//!
//! Not here: the transaction of the writer (`commit`), and the rounds of the task (`relay`).

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::rows::{Lane, MAX_CLAIM_EVENTS, Settlement};

/// Between the writers of this process and the task that delivers to one subscriber.
#[derive(Debug, Default)]
pub(super) struct Handover {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// True while the task waits, and will take claimed lanes at once.
    is_ready: bool,
    /// True if the table may have events for the task.
    is_due: bool,
    /// Lanes of one event each, claimed by writers whose transaction is committed.
    lanes: Vec<Lane>,
    /// Outcomes of deliveries that are not recorded yet.
    settlement: Settlement,
}

impl Handover {
    /// Returns what a writer of an event of this repository records in its transaction if it may claim the lane; `None` if it must not,
    /// because the task is busy.
    pub(super) fn claim(&self, repository_id: i64) -> Option<Settlement> {
        let mut state = self.state.lock();
        state.is_ready.then(|| state.settlement.take_repository(repository_id))
    }

    /// Has the task deliver the event of a claimed lane.
    pub(super) fn deliver(&self, lane: Lane) {
        self.state.lock().lanes.push(lane);
        self.wake.notify_one();
    }

    /// Has the task record outcomes, by itself or by a writer.
    pub(super) fn record(&self, settlement: Settlement) {
        self.state.lock().settlement.extend(settlement);
    }

    /// Has the task look into the table.
    pub(super) fn look(&self) {
        self.state.lock().is_due = true;
        self.wake.notify_one();
    }

    /// Returns claimed lanes, as many as one delivery may have, and makes the task busy. With as many outcomes to record the task has to do that
    /// first.
    pub(super) fn take_lanes(&self) -> Vec<Lane> {
        let mut state = self.state.lock();
        state.is_ready = false;
        if state.settlement.len() >= MAX_CLAIM_EVENTS as usize {
            return Vec::new();
        }
        let count = state.lanes.len().min(MAX_CLAIM_EVENTS as usize);
        state.lanes.drain(..count).collect()
    }

    /// Returns the outcomes to record with the next look into the table, and makes the task busy.
    pub(super) fn take_settlement(&self) -> Settlement {
        let mut state = self.state.lock();
        (state.is_ready, state.is_due) = (false, false);
        std::mem::take(&mut state.settlement)
    }

    /// Waits until there is something to do, as a task that is ready for claimed lanes.
    pub(super) async fn wait(&self) {
        while self.rest() {
            self.wake.notified().await;
        }
    }

    /// Makes the task ready for claimed lanes, unless there is something to do already. Returns whether it is ready.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        state.is_ready = !state.is_due && state.lanes.is_empty();
        state.is_ready
    }
}
