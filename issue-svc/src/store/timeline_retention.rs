//! Deletes timeline entries beyond an issue's limit, in batches.
//!
//! Entries about titles, texts, assignees, labels, milestones, due dates, bases and requests for
//! reviews go first. Those that say why an issue was closed and what refers to it go last.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_db::args;
use ferrite_db::{DbError, Query};
use ferrite_proto::id::IssueId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::IssueTable;

/// Entries per transaction, so that no writer waits long.
pub(crate) const MAX_BATCH_ROWS: i64 = 200;
/// Issues to remember because they got entries. Each is processed within moments.
const MAX_GROWN: usize = 10_000;
/// Issues or entries per query.
const MAX_READ_ROWS: i64 = 1000;

const COUNT: &str = "SELECT COUNT(*) FROM timeline WHERE issue_id = $1";
const COUNTS: &str =
    "SELECT issue_id, COUNT(*) FROM timeline WHERE issue_id > $1 GROUP BY issue_id ORDER BY issue_id LIMIT $2";
/// Actions 3 to 10 of `TimelineAction`, 13, 16, 17 and 20 to 23 are the changes that go first.
const EXPENDABLE: &str = "SELECT id FROM timeline WHERE issue_id = $1 \
     ORDER BY CASE WHEN action BETWEEN 3 AND 10 OR action IN (13, 16, 17, 20, 21, 22, 23) THEN 0 ELSE 1 END, id LIMIT $2";
/// Ids grow with time, so the times need no index.
const NEXT: &str = "SELECT id, created_us, (action BETWEEN 3 AND 10 OR action IN (13, 16, 17, 20, 21, 22, 23)) AS is_change FROM timeline WHERE id > $1 ORDER BY id LIMIT $2";
const DELETE: &str = "DELETE FROM timeline WHERE id IN ";
/// Skips rows that another replica is deleting.
const UNLOCKED_POSTGRES: &str = "(SELECT id FROM timeline WHERE id IN ";
const UNLOCKED_END_POSTGRES: &str = " FOR UPDATE SKIP LOCKED)";

/// Issues whose timelines grew since the last check.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrownTimelines(Arc<Grown>);

#[derive(Debug, Default)]
struct Grown {
    issues: Mutex<BTreeSet<i64>>,
    notify: Notify,
}

impl GrownTimelines {
    pub(super) fn add(&self, issues: &[IssueId]) {
        let mut grown = self.0.issues.lock();
        for issue in issues {
            if grown.len() < MAX_GROWN {
                grown.insert(issue.0);
            }
        }
        drop(grown);
        self.0.notify.notify_one();
    }

    /// Returns the issues and forgets them.
    pub(crate) fn take(&self) -> Vec<IssueId> {
        std::mem::take(&mut *self.0.issues.lock()).into_iter().map(IssueId).collect()
    }

    /// Waits until a timeline has grown.
    pub(crate) async fn grown(&self) {
        self.0.notify.notified().await;
    }
}

/// Marks up to which entry old ones have been deleted, in the order of all entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgeCursor(i64);

impl IssueTable {
    pub(crate) fn grown_timelines(&self) -> &GrownTimelines {
        &self.grown
    }

    /// Deletes a batch of an issue's entries beyond `max_entries`. Returns their number.
    pub(crate) async fn trim_timeline(&self, issue: IssueId, max_entries: i64) -> Result<u64, DbError> {
        let (count,): (i64,) = self.db.one(COUNT, &args![issue]).await?;
        let excess = (count - max_entries).min(MAX_BATCH_ROWS);
        if excess <= 0 {
            return Ok(0);
        }
        let rows: Vec<(i64,)> = self.db.all(EXPENDABLE, &args![issue, excess]).await?;
        self.delete_entries(rows.into_iter().map(|(id,)| id)).await
    }

    /// Checks some issues after `after`. Returns those with more than `max_entries`, and the last
    /// issue checked, or `None` if there are no further ones.
    pub(crate) async fn long_timelines(
        &self,
        after: IssueId,
        max_entries: i64,
    ) -> Result<(Vec<IssueId>, Option<IssueId>), DbError> {
        let counts: Vec<(i64, i64)> = self.db.all(COUNTS, &args![after, MAX_READ_ROWS]).await?;
        let last = counts.last().map(|(issue, _)| IssueId(*issue));
        let long = counts.into_iter().filter(|(_, count)| *count > max_entries).map(|(issue, _)| IssueId(issue));
        Ok((long.collect(), last))
    }

    /// Deletes a batch of change entries older than `before_us`, starting at `cursor`, and moves
    /// the cursor. Returns their number, or `None` if no entry that old is left.
    pub(crate) async fn delete_old_entries(
        &self,
        cursor: &mut AgeCursor,
        before_us: i64,
    ) -> Result<Option<u64>, DbError> {
        let rows: Vec<(i64, i64, bool)> = self.db.all(NEXT, &args![cursor.0, MAX_READ_ROWS]).await?;
        let mut old = Vec::new();
        let mut last = *cursor;
        for (id, created_us, is_change) in rows {
            if created_us >= before_us || old.len() as i64 == MAX_BATCH_ROWS {
                break;
            }
            last = AgeCursor(id);
            old.extend(is_change.then_some(id));
        }
        if last.0 == cursor.0 {
            return Ok(None);
        }
        let count = if old.is_empty() { 0 } else { self.delete_entries(old).await? };
        *cursor = last;
        Ok(Some(count))
    }

    async fn delete_entries(&self, ids: impl IntoIterator<Item = i64>) -> Result<u64, DbError> {
        let mut query = Query::new(DELETE);
        if self.db.pick(true, false) {
            query.push(UNLOCKED_POSTGRES).bind_list(ids).push(UNLOCKED_END_POSTGRES);
        } else {
            query.bind_list(ids);
        }
        let mut tx = self.db.begin_relaxed().await?;
        let count = tx.execute(query.sql(), query.args()).await?;
        tx.commit().await?;
        Ok(count)
    }
}
