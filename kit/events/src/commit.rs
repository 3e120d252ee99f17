//! Commits a transaction whose writer waits for the delivery of its event. Together with the
//! commit, it writes the event, claims its lanes for the relay of this process, and records earlier
//! outcomes.

use std::sync::Arc;

use ferrite_core::micros;
use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::events::Event;

use super::append::{LaneClaim, append_and_commit};
use super::flush::FlushHandle;
use super::handover::Handover;
use super::relay::{CLAIM_LEASE, Relay};
use super::rows::{Lane, Settlement};

/// The claim of one subscriber's lane by a transaction whose outcome is not known yet. If dropped
/// now, because the commit failed or its caller was cancelled, the task releases the claim at its
/// next poll. That has no effect if the claim does not exist.
struct OpenClaim<'a> {
    subscriber: &'a str,
    handover: Arc<Handover>,
    /// The lane without its event; `None` once the outcome is known.
    lane: Option<Lane>,
    now_us: i64,
    /// Outcomes that the transaction records.
    settlement: Settlement,
}

impl Relay {
    /// Writes `event` for each of `subscribers` as the last statement of `tx`, and commits. Returns
    /// a handle that waits for the delivery to the `awaited` ones. They get the event without
    /// another transaction if their relay is idle.
    ///
    /// Transactions of one repository must exclude each other, as for [`append`](super::append()).
    ///
    /// # Errors
    /// If the database fails. The transaction may have been committed or not.
    pub async fn commit(
        &self,
        mut tx: Tx,
        event: &Event,
        subscribers: &[&str],
        awaited: &[&str],
        now_us: i64,
    ) -> Result<FlushHandle, DbError> {
        let flush = self.flush(event, awaited);
        let claim_id = rand::random();
        let claim = |subscriber| self.claim(subscriber, event.repository_id, claim_id, now_us);
        let mut claims: Vec<_> =
            awaited.iter().copied().filter(|name| subscribers.contains(name)).filter_map(claim).collect();
        for OpenClaim { subscriber, settlement, .. } in &claims {
            let mut args = args![*subscriber, claim_id, now_us, 0_i64, 0_i64].to_vec();
            for sql in settlement.statements(&self.0.db, &mut args) {
                tx.execute_later(&sql, &args).await?;
            }
        }
        let claimed: Vec<_> = claims.iter().map(|claim| claim.subscriber).collect();
        let claim = LaneClaim { claim_id, until_us: now_us + micros(CLAIM_LEASE), subscribers: &claimed };
        let lanes = append_and_commit(tx, event, subscribers, now_us, claim).await?;
        for claim in &mut claims {
            claim.lane = None;
        }
        for name in subscribers {
            let Some(handover) = self.handover(name) else { continue };
            match lanes.iter().find(|(subscriber, _)| subscriber == name) {
                Some((_, lane)) => handover.deliver(lane.clone()),
                None => handover.look(),
            }
        }
        Ok(flush.known())
    }

    fn claim<'a>(&self, subscriber: &'a str, repository_id: i64, claim_id: i64, now_us: i64) -> Option<OpenClaim<'a>> {
        let handover = self.handover(subscriber)?;
        let settlement = handover.claim(repository_id)?;
        let lane = Some(Lane { repository_id, claim_id, attempts: 0, rows: Vec::new() });
        Some(OpenClaim { subscriber, handover, lane, now_us, settlement })
    }
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        let mut settlement = std::mem::take(&mut self.settlement);
        settlement.postponed(&lane, self.now_us, 0);
        // Does not wake the task: on PostgreSQL the commit may still be in progress.
        self.handover.record(settlement);
    }
}
