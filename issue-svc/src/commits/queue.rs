//! The table `commit_scans`: default branch updates whose commit messages are yet to be read.
//!
//! A scan is claimed with a lease, so another replica takes over if a process dies. Only the oldest
//! scan of a repository can be claimed, so commits act in the order of their pushes.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::micros;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx, Value};
use ferrite_proto::events::{IssueReach, RefUpdate, RefsUpdated};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;
use tokio::sync::Notify;

/// Lease of a claim: longer than one step of a scan. If the process is killed, its scans are
/// delayed by this time.
const CLAIM_LEASE: Duration = Duration::from_secs(30);
/// Claim attempts before giving up because other replicas were faster.
const MAX_CLAIM_ATTEMPTS: usize = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(60);

const RECORD: &str = "INSERT INTO commit_scans (repository_id, old_id, new_id, user_id, issue_reach, created_us, next_attempt_us, \
     claimed_until_us, epoch, attempts) VALUES ($1, $2, $3, $4, $5, $6, $6, 0, 0, 0)";
/// The oldest due scan whose repository has no older scan.
const NEXT: &str = "SELECT s.id, s.epoch FROM commit_scans s WHERE s.claimed_until_us < $1 AND s.next_attempt_us <= $1 \
     AND NOT EXISTS (SELECT 1 FROM commit_scans e WHERE e.repository_id = s.repository_id AND e.id < s.id) ORDER BY s.id LIMIT 1";
const CLAIM: &str = "UPDATE commit_scans SET claimed_until_us = $3, epoch = epoch + 1 WHERE id = $1 AND epoch = $2 \
     RETURNING id, epoch, attempts, repository_id, old_id, new_id, user_id, issue_reach";
const EXTEND: &str = "UPDATE commit_scans SET claimed_until_us = $3 WHERE id = $1 AND epoch = $2 RETURNING id";
const FINISH: &str = "DELETE FROM commit_scans WHERE id = $1 AND epoch = $2 RETURNING id";
const RETRY: &str = "UPDATE commit_scans SET claimed_until_us = 0, attempts = $3, next_attempt_us = $4 \
     WHERE id = $1 AND epoch = $2 RETURNING id";

/// Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct ScanQueue {
    db: Db,
    added: Arc<Notify>,
}

/// A claimed scan of one default branch update.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    id: i64,
    epoch: i64,
    attempts: i64,
    pub(super) repository: RepositoryId,
    pub(super) old_id: String,
    pub(super) new_id: String,
    /// The pusher.
    pub(super) user: UserId,
    pub(super) reach: IssueReach,
}

#[derive(FromRow)]
struct ScanRow {
    id: i64,
    epoch: i64,
    attempts: i64,
    repository_id: i64,
    old_id: String,
    new_id: String,
    user_id: i64,
    issue_reach: i64,
}

impl From<ScanRow> for Scan {
    fn from(row: ScanRow) -> Self {
        let reach = i32::try_from(row.issue_reach).ok().and_then(|reach| IssueReach::try_from(reach).ok());
        Self {
            id: row.id,
            epoch: row.epoch,
            attempts: row.attempts,
            repository: RepositoryId(row.repository_id),
            old_id: row.old_id,
            new_id: row.new_id,
            user: UserId(row.user_id),
            reach: reach.unwrap_or(IssueReach::None),
        }
    }
}

impl ScanQueue {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, added: Arc::default() }
    }

    /// Adds a scan if `updated` moved the default branch and the pusher's credential reaches
    /// issues. Call [`ScanQueue::wake`] after the commit.
    pub(crate) async fn record(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        updated: &RefsUpdated,
        now_us: i64,
    ) -> Result<(), DbError> {
        let reach = updated.issue_reach();
        let may_act = updated.user_id != 0 && matches!(reach, IssueReach::Repository | IssueReach::All);
        let Some(update) = default_branch_update(updated).filter(|_| may_act) else { return Ok(()) };
        let (old_id, new_id) = (update.old_id.as_str(), update.new_id.as_str());
        let args = args![repository, old_id, new_id, updated.user_id, i32::from(reach), now_us];
        tx.execute(RECORD, &args).await.map(|_| ())
    }

    /// Makes the scanner look for scans now instead of at its next poll.
    pub(crate) fn wake(&self) {
        self.added.notify_one();
    }

    /// Waits for the next [`ScanQueue::wake`]. Returns at once if there was one since the last
    /// wait.
    pub(super) async fn woken(&self) {
        self.added.notified().await;
    }

    /// Claims a scan. Claims and marks need not survive a crash of the machine: the commits are
    /// then read again, without a second effect.
    pub(super) async fn claim(&self, now_us: i64) -> Result<Option<Scan>, DbError> {
        for _ in 0..MAX_CLAIM_ATTEMPTS {
            // Read first: a poll that finds nothing must not occupy SQLite's single writer.
            let next: Option<(i64, i64)> = self.db.optional(NEXT, &args![now_us]).await?;
            let Some((id, epoch)) = next else { return Ok(None) };
            let args = args![id, epoch, now_us + micros(CLAIM_LEASE)];
            // If a replica was faster, the epoch differs. There may be another scan.
            let rows: Vec<ScanRow> = self.db.all_relaxed(&[(CLAIM, args.len())], &args).await?;
            if let Some(row) = rows.into_iter().next() {
                return Ok(Some(Scan::from(row)));
            }
        }
        Ok(None)
    }

    /// Restarts the lease. Returns false if the claim is lost: another one replaced it, or the
    /// repository was deleted.
    pub(super) async fn extend(&self, scan: &Scan, now_us: i64) -> Result<bool, DbError> {
        self.mark(EXTEND, &args![scan.id, scan.epoch, now_us + micros(CLAIM_LEASE)]).await
    }

    /// Removes a finished scan. Like `fail` and `release`, this does nothing if the claim is lost.
    pub(super) async fn finish(&self, scan: &Scan) -> Result<(), DbError> {
        self.mark(FINISH, &args![scan.id, scan.epoch]).await.map(drop)
    }

    /// Releases a failed scan to be retried. The delay grows with each failure.
    pub(super) async fn fail(&self, scan: &Scan, now_us: i64) -> Result<(), DbError> {
        let next_us = now_us + micros(backoff(scan.attempts));
        self.mark(RETRY, &args![scan.id, scan.epoch, scan.attempts + 1, next_us]).await.map(drop)
    }

    pub(super) async fn release(&self, scan: &Scan, now_us: i64) -> Result<(), DbError> {
        self.mark(RETRY, &args![scan.id, scan.epoch, scan.attempts, now_us]).await.map(drop)
    }

    /// Returns false if the claim is lost.
    async fn mark(&self, sql: &'static str, args: &[Value]) -> Result<bool, DbError> {
        let rows: Vec<(i64,)> = self.db.all_relaxed(&[(sql, args.len())], args).await?;
        Ok(!rows.is_empty())
    }
}

/// Returns the update of the default branch, unless it was deleted.
fn default_branch_update(updated: &RefsUpdated) -> Option<&RefUpdate> {
    let name = [b"refs/heads/", updated.default_branch.as_slice()].concat();
    updated.updates.iter().find(|update| update.name == name && !update.new_id.bytes().all(|byte| byte == b'0'))
}

/// 100 ms, doubled by each failed attempt, up to [`MAX_BACKOFF`].
fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}
