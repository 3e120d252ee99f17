//! Removes what belonged to a deleted repository, label or milestone, and labels of an organization
//! that a repository has left. Works in batches, because there may be a million rows.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId};
use sqlx_macros::FromRow;

use super::IssueTable;
use super::tallies::{List, TallyChanges};
use crate::model::Class;

/// Issues per batch, which is one transaction.
const BATCH_ISSUES: i64 = 1000;

const NOTE: &str = "INSERT INTO purges (repository_id, target_id, kind) VALUES ($1, $2, $3)";
const NOTE_SHARED_LABELS: &str = "INSERT INTO shared_label_purges (repository_id, label_id) VALUES ($1, $2)";
/// A label that is on issues of a repository, but not one of its owner. The label may be deleted.
const FOREIGN_LABEL: &str = "SELECT issue_labels.label_id FROM issue_labels LEFT JOIN labels ON labels.id = issue_labels.label_id \
     WHERE issue_labels.repository_id <> 0 AND issue_labels.repository_id = $1 AND (labels.id IS NULL OR labels.repository_id <> \
     (SELECT -owner_id FROM issue_counters WHERE issue_counters.repository_id = $1)) LIMIT 1";

/// A deleted object that may have rows left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    Repository(RepositoryId),
    Label(RepositoryId, i64),
    Milestone(RepositoryId, i64),
    /// A label of an organization, on the issues of one repository.
    SharedLabel(RepositoryId, i64),
    /// The labels of organizations that do not own the repository, on its issues.
    ForeignLabels(RepositoryId),
}

/// The row of a recorded purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgeNote {
    id: i64,
    /// Whether it is in `shared_label_purges`.
    is_of_shared_labels: bool,
}

impl Deleted {
    /// Returns the kind, the repository and the target. Without a kind, the purge is recorded in
    /// `shared_label_purges`.
    fn columns(self) -> (Option<i64>, RepositoryId, i64) {
        match self {
            Self::Repository(repository) => (Some(0), repository, 0),
            Self::Label(repository, id) => (Some(1), repository, id),
            Self::Milestone(repository, id) => (Some(2), repository, id),
            Self::SharedLabel(repository, id) => (None, repository, id),
            Self::ForeignLabels(repository) => (None, repository, 0),
        }
    }

    /// Returns the deleted repository, or that of the issues.
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
        match kind {
            Some(kind) => tx.execute(NOTE, &args![repository, target, kind]).await.map(drop),
            None => tx.execute(NOTE_SHARED_LABELS, &args![repository, target]).await.map(drop),
        }
    }

    /// Records that deleted labels of an organization may be left on issues, once per label and
    /// repository that uses it.
    pub(crate) async fn note_shared_labels(&self, tx: &mut Tx, labels: &[i64]) -> Result<(), DbError> {
        let mut query = Query::new(
            "INSERT INTO shared_label_purges (repository_id, label_id) SELECT DISTINCT repository_id, label_id \
             FROM issue_labels WHERE label_id IN ",
        );
        query.bind_list(labels.iter().copied());
        tx.execute(query.sql(), query.args()).await.map(drop)
    }

    /// Returns whether the purge of [`Deleted::ForeignLabels`] is recorded for a repository.
    pub(crate) async fn has_foreign_labels(&self, tx: &mut Tx, repository: RepositoryId) -> Result<bool, DbError> {
        let sql = "SELECT id FROM shared_label_purges WHERE repository_id = $1 AND label_id = 0 LIMIT 1";
        let row: Option<(i64,)> = tx.optional(sql, &args![repository]).await?;
        Ok(row.is_some())
    }

    /// Returns a recorded purge.
    pub(crate) async fn next_purge(&self) -> Result<Option<(PurgeNote, Deleted)>, DbError> {
        let sql = "SELECT id, kind, repository_id, target_id FROM purges ORDER BY id LIMIT 1";
        let row: Option<PurgeRow> = self.db.optional(sql, &[]).await?;
        if let Some(row) = row {
            let repository = RepositoryId(row.repository_id);
            let deleted = match row.kind {
                0 => Deleted::Repository(repository),
                1 => Deleted::Label(repository, row.target_id),
                _ => Deleted::Milestone(repository, row.target_id),
            };
            return Ok(Some((PurgeNote { id: row.id, is_of_shared_labels: false }, deleted)));
        }
        let sql = "SELECT id, repository_id, label_id FROM shared_label_purges ORDER BY id LIMIT 1";
        let row: Option<(i64, i64, i64)> = self.db.optional(sql, &[]).await?;
        Ok(row.map(|(id, repository, label)| {
            let deleted = match label {
                0 => Deleted::ForeignLabels(RepositoryId(repository)),
                id => Deleted::SharedLabel(RepositoryId(repository), id),
            };
            (PurgeNote { id, is_of_shared_labels: true }, deleted)
        }))
    }

    pub(crate) async fn end_purge(&self, tx: &mut Tx, note: PurgeNote) -> Result<(), DbError> {
        let sql = match note.is_of_shared_labels {
            true => "DELETE FROM shared_label_purges WHERE id = $1",
            false => "DELETE FROM purges WHERE id = $1",
        };
        tx.execute(sql, &args![note.id]).await.map(|_| ())
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
            Deleted::SharedLabel(repository, id) => {
                let limit = BATCH_ISSUES;
                (self.purge_shared_label(tx, repository, id, limit, now_us).await?, Some(List::SharedLabel(id)))
            }
            Deleted::ForeignLabels(repository) => return self.purge_foreign_labels(tx, repository, now_us).await,
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
                "DELETE FROM pull_updates WHERE repository_id = $1",
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
            // Cascades to comments, reviews, reactions, labels, mentions, timelines and words.
            delete_all(tx, "DELETE FROM issues WHERE id IN ", &ids).await?;
        }
        Ok(ids.len())
    }

    /// Removes a label from a batch of its issues. Returns their number.
    async fn purge_label(&self, tx: &mut Tx, id: i64, now_us: i64) -> Result<usize, DbError> {
        let sql = "SELECT issue_id FROM issue_labels WHERE label_id = $1 LIMIT $2";
        let rows: Vec<(i64,)> = tx.all(sql, &args![id, BATCH_ISSUES]).await?;
        unlink(tx, id, rows, now_us).await
    }

    /// Removes a label of an organization from at most `limit` issues of a repository. Returns
    /// their number.
    async fn purge_shared_label(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        id: i64,
        limit: i64,
        now_us: i64,
    ) -> Result<usize, DbError> {
        let sql = "SELECT issue_id FROM issue_labels WHERE repository_id <> 0 AND repository_id = $1 AND label_id = $2 LIMIT $3";
        let rows: Vec<(i64,)> = tx.all(sql, &args![repository, id, limit]).await?;
        unlink(tx, id, rows, now_us).await
    }

    /// Removes one batch of links to labels of organizations that do not own a repository. Returns
    /// whether there may be more.
    async fn purge_foreign_labels(&self, tx: &mut Tx, repository: RepositoryId, now_us: i64) -> Result<bool, DbError> {
        let mut limit = BATCH_ISSUES;
        while limit > 0 {
            let found: Option<(i64,)> = tx.optional(FOREIGN_LABEL, &args![repository]).await?;
            let Some((id,)) = found else { return Ok(false) };
            let removed = self.purge_shared_label(tx, repository, id, limit, now_us).await?;
            let removed = i64::try_from(removed).unwrap_or(i64::MAX);
            if removed < limit {
                self.forget_tallies(tx, repository, Some(List::SharedLabel(id))).await?;
            }
            limit -= removed;
        }
        Ok(true)
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

/// Removes a label from issues. Returns their number.
async fn unlink(tx: &mut Tx, label: i64, issues: Vec<(i64,)>, now_us: i64) -> Result<usize, DbError> {
    let ids: Vec<_> = issues.into_iter().map(|(id,)| IssueId(id)).collect();
    if !ids.is_empty() {
        let mut query = Query::new("DELETE FROM issue_labels WHERE label_id = ");
        query.bind(label).push(" AND issue_id IN ").bind_list(ids.iter().copied());
        tx.execute(query.sql(), query.args()).await?;
        let mut query = Query::new("UPDATE issues SET updated_us = ");
        query.bind(now_us).push(" WHERE id IN ").bind_list(ids.iter().copied());
        tx.execute(query.sql(), query.args()).await?;
    }
    Ok(ids.len())
}

async fn delete_all(tx: &mut Tx, sql: &'static str, ids: &[IssueId]) -> Result<(), DbError> {
    let mut query = Query::new(sql);
    query.bind_list(ids.iter().copied());
    tx.execute(query.sql(), query.args()).await.map(|_| ())
}
