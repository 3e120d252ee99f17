//! Records the outcome of an attempt: the attempt, the delivery, its queue and the state of the
//! hook change in one transaction.
//!
//! The commit is relaxed: if a crash of the machine loses it, the delivery is sent again, with the
//! same UUID.

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};

use super::attempts::{self, Attempt};
use super::claims::{Claim, Head, RELEASE};
use super::{kept_bytes, queues};

/// Takes a delivery out of its queue. The claim stays if the queue has more and the lease is
/// extended.
const TAKE_OUT: &str = "UPDATE lanes SET waiting = waiting - 1, next_us = $6, claimed_until_us = $7, epoch = $8 \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND epoch = $5 RETURNING waiting";
const DELETE_EMPTY: &str = "DELETE FROM lanes \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND waiting <= 0";
const HEAD: &str = "SELECT id, uuid, event_id, attempts, failures FROM deliveries WHERE hook_id = $1 AND repository_id = $2 \
     AND source = $3 AND lane_delivery_id = $4 AND status < 2 ORDER BY id LIMIT 1";
const UPDATE_DELIVERY: &str = "UPDATE deliveries SET status = $2, attempts = $3, failures = $4, response_status = $5, \
     duration_ms = $6, next_attempt_us = $7, finished_us = $8, lane_delivery_id = $9, bytes = bytes + $10 WHERE id = $1";

const SET_FAILING: &str = "UPDATE hooks SET failing_since_us = $2 WHERE id = $1 AND failing_since_us IS NULL";
/// Does nothing if the hook was edited since the request was sent.
const PAUSE_HOOK: &str = "UPDATE hooks SET paused_reason = $2, failing_since_us = COALESCE(failing_since_us, $4) \
     WHERE id = $1 AND updated_us = $3 AND paused_reason IS NULL";
const SET_HEALTHY: &str = "UPDATE hooks SET failing_since_us = NULL WHERE id = $1";
const RESUME: &str = "UPDATE hooks SET failing_since_us = NULL, paused_reason = NULL WHERE id = $1";

/// The state of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    /// Failed. The delivery is retried at this time, and its queue waits for it.
    RetryAt(i64),
    /// Failed too often to hold up its queue. The delivery is retried at this time, and its queue
    /// continues.
    StepAsideUntil(i64),
    /// Failed for the last time.
    Exhausted,
}

/// The effect of an attempt on its hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookEffect {
    Unchanged,
    /// The first failure after a success.
    Failing,
    /// The first success after failures.
    Healthy,
    /// A successful test of a paused hook.
    Resumed,
    /// Deliveries wait, unless the hook was edited after `hook_updated_us`.
    Paused {
        reason: String,
        hook_updated_us: i64,
    },
}

/// The result of an attempt, to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) outcome: Outcome,
    pub(crate) effect: HookEffect,
    pub(crate) attempt: Attempt,
    /// The end of the extended lease, if the sender continues with the queue's next delivery.
    pub(crate) lease_until_us: Option<i64>,
    pub(crate) now_us: i64,
}

/// The queue after a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The claim was replaced or the queue deleted. Nothing was recorded.
    Lost,
    Released,
    /// The queue stays claimed for its next delivery.
    Next(Head),
}

/// Records the result of an attempt to send the head of a claimed queue. An error means that
/// nothing has changed.
pub(crate) async fn settle(db: &Db, claim: &Claim, head: &Head, result: &Settlement) -> Result<Settled, DbError> {
    let mut tx = db.begin_relaxed().await?;
    let attempt = attempts::without_repetition(&mut tx, head.id, &result.attempt).await?;
    kept_bytes::add(&mut tx, claim.queue.repository, attempt.bytes()).await?;
    apply_effect(&mut tx, claim, result).await?;
    let Some(waiting) = update_queue(&mut tx, claim, result).await? else {
        tx.rollback().await?;
        return Ok(Settled::Lost);
    };
    update_delivery(&mut tx, claim, head, result, attempt.bytes()).await?;
    attempts::insert(&mut tx, head.id, &attempt).await?;
    let next = match result.lease_until_us {
        Some(_) if waiting > 0 && !matches!(result.outcome, Outcome::RetryAt(_)) => {
            tx.optional::<Head>(HEAD, &claim.queue.columns()).await?
        }
        _ => None,
    };
    tx.commit().await?;
    Ok(next.map_or(Settled::Released, Settled::Next))
}

/// Updates the hook. All transactions lock the repository first, then the hook, then the queue.
async fn apply_effect(tx: &mut Tx, claim: &Claim, result: &Settlement) -> Result<(), DbError> {
    let hook = claim.queue.hook;
    match &result.effect {
        HookEffect::Unchanged => {}
        HookEffect::Failing => {
            tx.execute(SET_FAILING, &args![hook, result.now_us]).await?;
        }
        HookEffect::Healthy => {
            tx.execute(SET_HEALTHY, &args![hook]).await?;
        }
        HookEffect::Resumed => {
            tx.execute(RESUME, &args![hook]).await?;
            queues::resume(tx, hook, result.now_us).await?;
        }
        HookEffect::Paused { reason, hook_updated_us } => {
            tx.execute(PAUSE_HOOK, &args![hook, reason, *hook_updated_us, result.now_us]).await?;
        }
    }
    Ok(())
}

/// Postpones the queue or takes the delivery out of it. Returns the number of deliveries left in
/// the queue, or `None` if the claim was replaced.
async fn update_queue(tx: &mut Tx, claim: &Claim, result: &Settlement) -> Result<Option<i64>, DbError> {
    let key = claim.queue.columns();
    if let Outcome::RetryAt(next_us) = result.outcome {
        let rows = tx.execute(RELEASE, &[key.as_slice(), &args![claim.epoch, next_us]].concat()).await?;
        return Ok((rows > 0).then_some(1));
    }
    let (next_us, claimed_until_us, epoch) = match result.lease_until_us {
        Some(until_us) => (until_us, until_us, claim.epoch),
        None => (result.now_us, 0, 0),
    };
    let args = [key.as_slice(), &args![claim.epoch, next_us, claimed_until_us, epoch]].concat();
    let waiting: Option<(i64,)> = tx.optional(TAKE_OUT, &args).await?;
    let Some((waiting,)) = waiting else { return Ok(None) };
    if waiting <= 0 {
        tx.execute(DELETE_EMPTY, &key).await?;
    }
    Ok(Some(waiting))
}

async fn update_delivery(
    tx: &mut Tx,
    claim: &Claim,
    head: &Head,
    result: &Settlement,
    bytes: i64,
) -> Result<(), DbError> {
    let (status, next_us, finished_us) = match result.outcome {
        Outcome::Succeeded => (2, None, Some(result.now_us)),
        Outcome::Exhausted => (3, None, Some(result.now_us)),
        Outcome::RetryAt(next_us) | Outcome::StepAsideUntil(next_us) => (1, Some(next_us), None),
    };
    let failures = head.failures + i64::from(result.outcome != Outcome::Succeeded);
    let mut queue = claim.queue;
    if let Outcome::StepAsideUntil(next_us) = result.outcome {
        queue.delivery_id = head.id;
        queues::add_waiting(tx, &BTreeMap::from([(queue, 1)]), next_us).await?;
    }
    let attempt = &result.attempt;
    let args = args![
        head.id,
        status,
        attempt.number,
        failures,
        attempt.response_status,
        attempt.duration_ms,
        next_us,
        finished_us,
        queue.delivery_id,
        bytes,
    ];
    tx.execute(UPDATE_DELIVERY, &args).await?;
    Ok(())
}
