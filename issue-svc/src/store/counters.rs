//! The counters of a repository: one row that assigns numbers. Locking it serializes all writes to
//! the repository's issues.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::IssueTable;

/// Locks the row until the transaction ends, so that the writes to a repository and their events
/// have one order.
const ADVANCE: &str = "INSERT INTO issue_counters (repository_id, last_number, open_count, version, is_deleted, last_comment, \
     label_count, milestone_count, open_pull_count) VALUES ($1, $2, $3, $4, FALSE, $5, $6, $7, $8) ON CONFLICT (repository_id) DO UPDATE SET \
     last_number = issue_counters.last_number + excluded.last_number, \
     open_count = issue_counters.open_count + excluded.open_count, version = issue_counters.version + excluded.version, \
     last_comment = issue_counters.last_comment + excluded.last_comment, \
     label_count = issue_counters.label_count + excluded.label_count, \
     milestone_count = issue_counters.milestone_count + excluded.milestone_count, \
     open_pull_count = issue_counters.open_pull_count + excluded.open_pull_count \
     RETURNING last_number, open_count, version, is_deleted, last_comment, label_count, milestone_count, open_pull_count, owner_id";
/// An older transfer than the last one, told again long after, changes nothing.
const SET_OWNER: &str =
    "UPDATE issue_counters SET owner_id = $2, owner_us = $3 WHERE repository_id = $1 AND owner_us <= $4";
/// Transfers that replicas of repo-svc tell in order may have times that differ by this the other
/// way round.
const MAX_CLOCK_DIFFERENCE_US: i64 = 60_000_000;
const MARK_DELETED: &str = "INSERT INTO issue_counters (repository_id, last_number, open_count, version, is_deleted) \
     VALUES ($1, 0, 0, 1, TRUE) ON CONFLICT (repository_id) DO UPDATE SET open_count = 0, open_pull_count = 0, \
     version = issue_counters.version + 1, is_deleted = TRUE";

/// How much each counter of a repository changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CounterChange {
    pub(crate) numbers: i64,
    pub(crate) open: i64,
    pub(crate) comments: i64,
    pub(crate) labels: i64,
    pub(crate) milestones: i64,
    /// Open pull requests.
    pub(crate) pulls: i64,
}

/// The counters of a repository. Each change of an open count increments `version`, so that a
/// receiver can drop older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct Counters {
    /// The last number assigned.
    pub(crate) last_number: i64,
    pub(crate) open_count: i64,
    pub(crate) version: i64,
    /// The last sequence number of a comment.
    pub(crate) last_comment: i64,
    pub(crate) label_count: i64,
    pub(crate) milestone_count: i64,
    pub(crate) open_pull_count: i64,
    /// The account that owns the repository, once it has been transferred; zero before.
    pub(crate) owner_id: i64,
}

#[derive(FromRow)]
struct CounterRow {
    is_deleted: bool,
    #[sqlx(flatten)]
    counters: Counters,
}

impl IssueTable {
    /// Changes the counters of a repository and returns them, or `None` if the repository was
    /// deleted. Other writers to the repository wait until the transaction ends, so its later reads
    /// are stable.
    pub(crate) async fn advance(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        change: CounterChange,
    ) -> Result<Option<Counters>, DbError> {
        let versions = i64::from(change.numbers != 0 || change.open != 0 || change.pulls != 0);
        let CounterChange { numbers, open, comments, labels, milestones, pulls } = change;
        let args = args![repository, numbers, open, versions, comments, labels, milestones, pulls];
        let row: CounterRow = tx.one(ADVANCE, &args).await?;
        Ok((!row.is_deleted).then_some(row.counters))
    }

    /// Sets the owner of a repository after a transfer at `time_us`. Returns false if a later one
    /// is known. The counters must exist.
    pub(crate) async fn set_owner(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        owner: UserId,
        time_us: i64,
    ) -> Result<bool, DbError> {
        let args = args![repository, owner, time_us, time_us.saturating_add(MAX_CLOCK_DIFFERENCE_US)];
        Ok(tx.execute(SET_OWNER, &args).await? > 0)
    }

    /// Marks a repository as deleted for good, because ids are never reused. Waits for earlier
    /// writers, whose rows are then visible; later writers see the mark.
    pub(crate) async fn mark_deleted(&self, tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute(MARK_DELETED, &args![repository]).await.map(|_| ())
    }
}
