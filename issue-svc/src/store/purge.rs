//! Removes what belonged to a deleted repository, label or milestone. Works in batches, because
//! there may be a million rows.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId};
use sqlx_macros::FromRow;

use super::IssueTable;
use super::tallies::{List, TallyChanges};
use crate::model::Class;

/// Issues per batch, which is one transaction.
const BATCH_ISSUES: i64 = 1000;

/// A deleted object that may have rows left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    Repository(RepositoryId),
    Label(RepositoryId, i64),
    Milestone(RepositoryId, i64),
}

impl Deleted {
    fn columns(self) -> (i64, RepositoryId, i64) {
        match self {
            Self::Repository(repository) => (0, repository, 0),
            Self::Label(repository, id) => (1, repository, id),
            Self::Milestone(repository, id) => (2, repository, id),
        }
    }

    /// Returns the deleted repository, or that of the label or milestone.
    pub(crate) fn repository(self) -> RepositoryId {
        self.columns().1
    }
}

#[derive(FromRow)]
struct PurgeRow {
    id: i64,
    kind: i64,
    repository_id: i64,
    target_id: i64,
}

impl IssueTable {
    /// Records that rows are left.
    pub(crate) async fn note_purge(&self, tx: &mut Tx, deleted: Deleted) -> Result<(), DbError> {
        let (kind, repository, target) = deleted.columns();
        let sql = "INSERT INTO purges (kind, repository_id, target_id) VALUES ($1, $2, $3)";
        tx.execute(sql, &args![kind, repository, target]).await.map(|_| ())
    }

    /// Returns a recorded purge and its id.
    pub(crate) async fn next_purge(&self) -> Result<Option<(i64, Deleted)>, DbError> {
        let sql = "SELECT id, kind, repository_id, target_id FROM purges ORDER BY id LIMIT 1";
        let row: Option<PurgeRow> = self.db.optional(sql, &[]).await?;
        Ok(row.map(|row| {
            let repository = RepositoryId(row.repository_id);
            let deleted = match row.kind {
                0 => Deleted::Repository(repository),
                1 => Deleted::Label(repository, row.target_id),
                _ => Deleted::Milestone(repository, row.target_id),
            };
            (row.id, deleted)
        }))
    }

    pub(crate) async fn end_purge(&self, tx: &mut Tx, note: i64) -> Result<(), DbError> {
        tx.execute("DELETE FROM purges WHERE id = $1", &args![note]).await.map(|_| ())
    }

    /// Removes one batch of rows. Returns whether there may be more. Unless the repository is
    /// deleted, its counters must be locked.
    pub(crate) async fn purge(&self, tx: &mut Tx, deleted: Deleted, now_us: i64) -> Result<bool, DbError> {
        let (rows, list) = match deleted {
            Deleted::Repository(repository) => (self.purge_issues(tx, repository).await?, None),
            Deleted::Label(_, id) => (self.purge_label(tx, id, now_us).await?, Some(List::Label(id))),
            Deleted::Milestone(repository, id) => {
                (self.purge_milestone(tx, repository, id, now_us).await?, Some(List::Milestone(id)))
            }
        };
        if i64::try_from(rows).unwrap_or(i64::MAX) >= BATCH_ISSUES {
            return Ok(true);
        }
        self.forget_tallies(tx, deleted.repository(), list).await?;
        if let Deleted::Repository(repository) = deleted {
            for sql in [
                "DELETE FROM labels WHERE repository_id = $1",
                "DELETE FROM milestones WHERE repository_id = $1",
                "DELETE FROM commit_scans WHERE repository_id = $1",
            ] {
                tx.execute(sql, &args![repository]).await?;
            }
        }
        Ok(false)
    }

    /// Removes a batch of a repository's issues. Returns their number.
    async fn purge_issues(&self, tx: &mut Tx, repository: RepositoryId) -> Result<usize, DbError> {
        let sql = "SELECT id FROM issues WHERE repository_id = $1 ORDER BY number LIMIT $2";
        let rows: Vec<(i64,)> = tx.all(sql, &args![repository, BATCH_ISSUES]).await?;
        let ids: Vec<_> = rows.into_iter().map(|(id,)| IssueId(id)).collect();
        if !ids.is_empty() {
            if let Some(delete_words) = tx.pick(None, Some("DELETE FROM issue_words WHERE rowid IN ")) {
                delete_all(tx, delete_words, &ids).await?;
            }
            // Cascades to comments, labels, mentions, timelines and words.
            delete_all(tx, "DELETE FROM issues WHERE id IN ", &ids).await?;
        }
        Ok(ids.len())
    }

    /// Removes a label from a batch of its issues. Returns their number.
    async fn purge_label(&self, tx: &mut Tx, id: i64, now_us: i64) -> Result<usize, DbError> {
        let sql = "SELECT issue_id FROM issue_labels WHERE label_id = $1 LIMIT $2";
        let rows: Vec<(i64,)> = tx.all(sql, &args![id, BATCH_ISSUES]).await?;
        let ids: Vec<_> = rows.into_iter().map(|(id,)| IssueId(id)).collect();
        if !ids.is_empty() {
            let mut query = Query::new("DELETE FROM issue_labels WHERE label_id = ");
            query.bind(id).push(" AND issue_id IN ").bind_list(ids.iter().copied());
            tx.execute(query.sql(), query.args()).await?;
            let mut query = Query::new("UPDATE issues SET updated_us = ");
            query.bind(now_us).push(" WHERE id IN ").bind_list(ids.iter().copied());
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(ids.len())
    }

    /// Removes a milestone from a batch of its issues. Returns their number.
    async fn purge_milestone(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        id: i64,
        now_us: i64,
    ) -> Result<usize, DbError> {
        let sql = "SELECT id, class, number FROM issues WHERE repository_id = $1 AND milestone_id = $2 LIMIT $3";
        let issues: Vec<(i64, i64, i64)> = tx.all(sql, &args![repository, id, BATCH_ISSUES]).await?;
        if !issues.is_empty() {
            let mut query = Query::new("UPDATE issues SET milestone_id = 0, updated_us = ");
            query.bind(now_us).push(" WHERE id IN ").bind_list(issues.iter().map(|(id, ..)| *id));
            tx.execute(query.sql(), query.args()).await?;
            let mut changes = TallyChanges::default();
            for (_, class, number) in &issues {
                changes.add(List::Milestone(0), Class::from_number(*class), *number, 1);
            }
            self.tally(tx, repository, changes).await?;
        }
        Ok(issues.len())
    }
}

async fn delete_all(tx: &mut Tx, sql: &'static str, ids: &[IssueId]) -> Result<(), DbError> {
    let mut query = Query::new(sql);
    query.bind_list(ids.iter().copied());
    tx.execute(query.sql(), query.args()).await.map(|_| ())
}
