//! The table `pull_updates`: what pushes and merges leave to do for pull requests.
//!
//! There is one row per kind and subject, however often something is pushed. A row is claimed with a
//! lease; a push meanwhile increments its epoch, so that the claim is lost and the work is done
//! again. The rows of a repository are worked on one after the other, except for those that failed.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::micros;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx, Value};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;
use tokio::sync::Notify;

/// Lease of a claim: longer than one step of the work. If the process is killed, its rows are
/// delayed by this time.
pub(super) const CLAIM_LEASE: Duration = Duration::from_secs(90);
const MAX_CLAIM_ATTEMPTS: usize = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A base that moves again keeps the commit from which its history is still to be read.
const RECORD: &str = "INSERT INTO pull_updates (repository_id, kind, number, branch, old_value, new_value, user_id, next_attempt_us, \
     claimed_until_us, epoch, attempts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0) \
     ON CONFLICT (repository_id, kind, number, branch) DO UPDATE SET new_value = excluded.new_value, user_id = excluded.user_id, \
     next_attempt_us = excluded.next_attempt_us, claimed_until_us = excluded.claimed_until_us, epoch = pull_updates.epoch + 1, \
     attempts = 0 RETURNING id, epoch";
const NEXT: &str = "SELECT u.id, u.epoch FROM pull_updates u WHERE u.next_attempt_us <= $1 AND u.claimed_until_us < $1 \
     AND NOT EXISTS (SELECT 1 FROM pull_updates c WHERE c.repository_id = u.repository_id AND c.claimed_until_us >= $1) \
     ORDER BY u.next_attempt_us, u.id LIMIT 1";
const CLAIM: &str = "UPDATE pull_updates SET claimed_until_us = $3, epoch = epoch + 1 WHERE id = $1 AND epoch = $2 \
     RETURNING id, epoch, attempts, repository_id, kind, number, branch, old_value, new_value, user_id";
const EXTEND: &str = "UPDATE pull_updates SET claimed_until_us = $3 WHERE id = $1 AND epoch = $2 RETURNING id";
const FINISH: &str = "DELETE FROM pull_updates WHERE id = $1 AND epoch = $2 RETURNING id";
const RETRY: &str = "UPDATE pull_updates SET claimed_until_us = 0, attempts = $3, next_attempt_us = $4 \
     WHERE id = $1 AND epoch = $2 RETURNING id";
const IS_WAITING: &str =
    "SELECT id FROM pull_updates WHERE repository_id = $1 AND kind = $2 AND number = $3 AND branch = ''";

/// Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct PullQueue {
    db: Db,
    added: Arc<Notify>,
}

/// What is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// The head of a pull request may have moved.
    Head { number: i64 },
    /// The branch of the head was renamed.
    HeadRenamed { number: i64, new_name: String },
    /// A base branch moved.
    Base { branch: String, old_id: String, new_id: String },
    /// A base branch was renamed.
    BaseRenamed { branch: String, new_name: String },
    /// A pull request was merged, and its closing words are to be applied.
    Closes { number: i64, commit_id: String },
    /// A scheduled merge is to be tried.
    Scheduled { number: i64 },
}

/// A claimed row.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    id: i64,
    epoch: i64,
    attempts: i64,
    pub(super) repository: RepositoryId,
    pub(super) update: Update,
    /// Who pushed or merged; zero if there is no user.
    pub(super) user: UserId,
}

#[derive(FromRow)]
struct UpdateRow {
    id: i64,
    epoch: i64,
    attempts: i64,
    repository_id: i64,
    kind: i64,
    number: i64,
    branch: String,
    old_value: String,
    new_value: String,
    user_id: i64,
}

const HEAD: i64 = 1;
const HEAD_RENAMED: i64 = 2;
const BASE: i64 = 3;
const BASE_RENAMED: i64 = 4;
const CLOSES: i64 = 5;
const SCHEDULED: i64 = 6;

impl Update {
    /// Returns the kind, the number, the branch, and the old and the new value.
    fn columns(&self) -> (i64, i64, &str, &str, &str) {
        match self {
            Self::Head { number } => (HEAD, *number, "", "", ""),
            Self::HeadRenamed { number, new_name } => (HEAD_RENAMED, *number, "", "", new_name),
            Self::Base { branch, old_id, new_id } => (BASE, 0, branch, old_id, new_id),
            Self::BaseRenamed { branch, new_name } => (BASE_RENAMED, 0, branch, "", new_name),
            Self::Closes { number, commit_id } => (CLOSES, *number, "", "", commit_id),
            Self::Scheduled { number } => (SCHEDULED, *number, "", "", ""),
        }
    }
}

impl From<UpdateRow> for Claim {
    fn from(row: UpdateRow) -> Self {
        let UpdateRow { number, branch, old_value, new_value, .. } = row;
        let update = match row.kind {
            HEAD_RENAMED => Update::HeadRenamed { number, new_name: new_value },
            BASE => Update::Base { branch, old_id: old_value, new_id: new_value },
            BASE_RENAMED => Update::BaseRenamed { branch, new_name: new_value },
            CLOSES => Update::Closes { number, commit_id: new_value },
            SCHEDULED => Update::Scheduled { number },
            _ => Update::Head { number },
        };
        Self {
            id: row.id,
            epoch: row.epoch,
            attempts: row.attempts,
            repository: RepositoryId(row.repository_id),
            update,
            user: UserId(row.user_id),
        }
    }
}

impl PullQueue {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, added: Arc::default() }
    }

    /// Adds a row, or renews that of the same subject. Call [`PullQueue::wake`] after the commit.
    pub(crate) async fn record(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        update: &Update,
        user: UserId,
        now_us: i64,
    ) -> Result<(), DbError> {
        self.insert(tx, repository, update, user, (now_us, 0)).await.map(drop)
    }

    /// Like [`PullQueue::record`], for a head that the caller brings up to date itself.
    pub(crate) async fn record_claimed(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        number: i64,
        user: UserId,
        now_us: i64,
    ) -> Result<Claim, DbError> {
        let update = Update::Head { number };
        let until_us = now_us + micros(CLAIM_LEASE);
        let (id, epoch) = self.insert(tx, repository, &update, user, (now_us, until_us)).await?;
        Ok(Claim { id, epoch, attempts: 0, repository, update, user })
    }

    async fn insert(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        update: &Update,
        user: UserId,
        (now_us, claimed_until_us): (i64, i64),
    ) -> Result<(i64, i64), DbError> {
        let (kind, number, branch, old_value, new_value) = update.columns();
        let args = args![repository, kind, number, branch, old_value, new_value, user, now_us, claimed_until_us];
        tx.one(RECORD, &args).await
    }

    /// Whether the head of a pull request is still to be brought up to date.
    pub(crate) async fn is_head_waiting(&self, repository: RepositoryId, number: i64) -> Result<bool, DbError> {
        let row: Option<(i64,)> = self.db.optional(IS_WAITING, &args![repository, HEAD, number]).await?;
        Ok(row.is_some())
    }

    /// Makes the worker look for rows now instead of at its next poll.
    pub(crate) fn wake(&self) {
        self.added.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.added.notified().await;
    }

    /// Claims a row of a repository of which no row is claimed. Two processes may still work on
    /// different rows of one at the same time: each row is guarded by its epoch.
    pub(super) async fn claim(&self, now_us: i64) -> Result<Option<Claim>, DbError> {
        for _ in 0..MAX_CLAIM_ATTEMPTS {
            // Read first: a poll that finds nothing must not occupy SQLite's single writer.
            let next: Option<(i64, i64)> = self.db.optional(NEXT, &args![now_us]).await?;
            let Some((id, epoch)) = next else { return Ok(None) };
            let args = args![id, epoch, now_us + micros(CLAIM_LEASE)];
            let rows: Vec<UpdateRow> = self.db.all_relaxed(&[(CLAIM, args.len())], &args).await?;
            if let Some(row) = rows.into_iter().next() {
                return Ok(Some(Claim::from(row)));
            }
        }
        Ok(None)
    }

    /// Restarts the lease. Returns false if the claim is lost: there was another push.
    pub(super) async fn extend(&self, claim: &Claim, now_us: i64) -> Result<bool, DbError> {
        self.mark(EXTEND, &args![claim.id, claim.epoch, now_us + micros(CLAIM_LEASE)]).await
    }

    /// Like [`PullQueue::extend`], in the transaction of an effect: a push waits for it.
    pub(super) async fn extend_in(&self, tx: &mut Tx, claim: &Claim, now_us: i64) -> Result<bool, DbError> {
        let row: Option<(i64,)> =
            tx.optional(EXTEND, &args![claim.id, claim.epoch, now_us + micros(CLAIM_LEASE)]).await?;
        Ok(row.is_some())
    }

    /// Removes a finished row. Like `fail` and `release`, this does nothing if the claim is lost.
    pub(super) async fn finish(&self, claim: &Claim) -> Result<(), DbError> {
        self.mark(FINISH, &args![claim.id, claim.epoch]).await.map(drop)
    }

    /// Releases a failed row to be retried. The delay grows with each failure.
    pub(super) async fn fail(&self, claim: &Claim, now_us: i64) -> Result<(), DbError> {
        let next_us = now_us + micros(backoff(claim.attempts));
        self.mark(RETRY, &args![claim.id, claim.epoch, claim.attempts + 1, next_us]).await.map(drop)
    }

    pub(super) async fn release(&self, claim: &Claim, now_us: i64) -> Result<(), DbError> {
        self.mark(RETRY, &args![claim.id, claim.epoch, claim.attempts, now_us]).await.map(drop)
    }

    async fn mark(&self, sql: &'static str, args: &[Value]) -> Result<bool, DbError> {
        let rows: Vec<(i64,)> = self.db.all_relaxed(&[(sql, args.len())], args).await?;
        Ok(!rows.is_empty())
    }
}

/// 100 ms, doubled by each failed attempt, up to [`MAX_BACKOFF`].
fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}
