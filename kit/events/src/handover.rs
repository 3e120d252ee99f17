//! Shared by writers and the task of a subscriber: lanes that a writer claimed for the task, and
//! outcomes of deliveries that a writer may record in its own transaction.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::rows::{Lane, MAX_CLAIM_EVENTS, Settlement};

/// Connects the writers of this process with the task that delivers to one subscriber.
#[derive(Debug, Default)]
pub(super) struct Handover {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// True while the task is idle and takes claimed lanes at once.
    is_ready: bool,
    /// True if the table may have events for the task.
    is_due: bool,
    /// Lanes of one event each, claimed by committed writers.
    lanes: Vec<Lane>,
    settlement: Settlement,
}

impl Handover {
    /// Returns what a writer must record if it may claim the lane of this repository; `None` if the
    /// task is busy and the writer must not.
    pub(super) fn claim(&self, repository_id: i64) -> Option<Settlement> {
        let mut state = self.state.lock();
        state.is_ready.then(|| state.settlement.take_repository(repository_id))
    }

    /// Passes a claimed lane to the task.
    pub(super) fn deliver(&self, lane: Lane) {
        self.state.lock().lanes.push(lane);
        self.wake.notify_one();
    }

    /// Passes outcomes on, to be recorded by the task or by a writer.
    pub(super) fn record(&self, settlement: Settlement) {
        self.state.lock().settlement.extend(settlement);
    }

    /// Makes the task poll the table.
    pub(super) fn look(&self) {
        self.state.lock().is_due = true;
        self.wake.notify_one();
    }

    /// Returns claimed lanes, up to one delivery, and makes the task busy. Returns none if there
    /// are as many outcomes to record first.
    pub(super) fn take_lanes(&self) -> Vec<Lane> {
        let mut state = self.state.lock();
        state.is_ready = false;
        if state.settlement.len() >= MAX_CLAIM_EVENTS as usize {
            return Vec::new();
        }
        let count = state.lanes.len().min(MAX_CLAIM_EVENTS as usize);
        state.lanes.drain(..count).collect()
    }

    /// Returns the outcomes to record with the next poll, and makes the task busy.
    pub(super) fn take_settlement(&self) -> Settlement {
        let mut state = self.state.lock();
        (state.is_ready, state.is_due) = (false, false);
        std::mem::take(&mut state.settlement)
    }

    /// Waits for something to do, ready for claimed lanes.
    pub(super) async fn wait(&self) {
        while self.rest() {
            self.wake.notified().await;
        }
    }

    /// Makes the task ready for claimed lanes unless it has something to do. Returns whether it is
    /// ready.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        state.is_ready = !state.is_due && state.lanes.is_empty();
        state.is_ready
    }
}
