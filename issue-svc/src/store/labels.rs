//! Labels of repositories and of issues.

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;
use sqlx_macros::FromRow;

use super::IssueTable;
use super::Reader;
use crate::model::{Color, Issue, Label, LabelName};

const INSERT: &str = "INSERT INTO labels (repository_id, name, name_key, color) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (repository_id, name_key) DO NOTHING RETURNING id";
const UPDATE: &str = "UPDATE labels SET name = $3, name_key = $4, color = $5 WHERE repository_id = $1 AND id = $2";
const FIND: &str = "SELECT id, repository_id, name, color FROM labels WHERE repository_id = $1 AND id = $2";
const FIND_NAMED: &str = "SELECT id, repository_id, name, color FROM labels WHERE repository_id = $1 AND name_key = $2";
const LIST: &str =
    "SELECT id, repository_id, name, color FROM labels WHERE repository_id = $1 ORDER BY name_key LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM labels WHERE repository_id = $1";
const DELETE: &str = "DELETE FROM labels WHERE repository_id = $1 AND id = $2";

#[derive(FromRow)]
pub(super) struct LabelRow {
    id: i64,
    repository_id: i64,
    name: String,
    color: String,
}

impl From<LabelRow> for Label {
    fn from(row: LabelRow) -> Self {
        Self { id: row.id, repository: RepositoryId(row.repository_id), name: row.name, color: row.color }
    }
}

impl IssueTable {
    /// Inserts a label. Returns `None` if the repository has one with this name.
    pub(crate) async fn insert_label(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        name: &LabelName,
        color: &Color,
    ) -> Result<Option<Label>, DbError> {
        let args = args![repository, name.as_str(), name.key(), color.as_str()];
        let row: Option<(i64,)> = tx.optional(INSERT, &args).await?;
        let (name, color) = (name.as_str().to_owned(), color.as_str().to_owned());
        Ok(row.map(|(id,)| Label { id, repository, name, color }))
    }

    /// Updates the name and color of a label. A name that another label has is a unique violation.
    pub(crate) async fn update_label(&self, tx: &mut Tx, label: &Label) -> Result<(), DbError> {
        let key = label.name.to_lowercase();
        let args = args![label.repository, label.id, label.name.as_str(), key, label.color.as_str()];
        tx.execute(UPDATE, &args).await.map(|_| ())
    }

    pub(crate) async fn label(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        id: i64,
    ) -> Result<Option<Label>, DbError> {
        let row: Option<LabelRow> = reader.optional(FIND, &args![repository, id]).await?;
        Ok(row.map(Label::from))
    }

    /// Finds a label by its name, ignoring case.
    pub(crate) async fn label_named(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        name: &str,
    ) -> Result<Option<Label>, DbError> {
        let row: Option<LabelRow> = reader.optional(FIND_NAMED, &args![repository, name.to_lowercase()]).await?;
        Ok(row.map(Label::from))
    }

    /// Returns the repository's labels with one of the ids or names, ordered by name.
    pub(crate) async fn labels_matching(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        ids: &[i64],
        names: &[String],
    ) -> Result<Vec<Label>, DbError> {
        let mut query = Query::new("SELECT id, repository_id, name, color FROM labels WHERE repository_id = ");
        query.bind(repository).push(" AND (id IN ").bind_list(ids.iter().copied());
        query.push(" OR name_key IN ").bind_list(names.iter().map(|name| IdOrName::new(name).name_key()));
        query.push(") ORDER BY name_key");
        let rows: Vec<LabelRow> = reader.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(Label::from).collect())
    }

    /// Returns a page of the repository's labels by name, and their total number.
    pub(crate) async fn list_labels(&self, repository: RepositoryId, page: Page) -> Result<(Vec<Label>, i64), DbError> {
        let rows: Vec<LabelRow> = self.db.all(LIST, &args![repository, page.size(), page.offset()]).await?;
        let (total,): (i64,) = self.db.one(COUNT, &args![repository]).await?;
        Ok((rows.into_iter().map(Label::from).collect(), total))
    }

    /// Deletes a label from its repository, which hides it from all issues.
    /// [`IssueTable::purge_label`] removes the links to issues later. Returns false if the label
    /// does not exist.
    pub(crate) async fn delete_label(&self, tx: &mut Tx, repository: RepositoryId, id: i64) -> Result<bool, DbError> {
        Ok(tx.execute(DELETE, &args![repository, id]).await? > 0)
    }

    /// Adds labels to an issue that has none of them yet.
    pub(crate) async fn add_labels(&self, tx: &mut Tx, issue: &Issue, labels: &[i64]) -> Result<(), DbError> {
        if labels.is_empty() {
            return Ok(());
        }
        let mut query = Query::new("INSERT INTO issue_labels (issue_id, label_id, class, number) VALUES ");
        query.bind_rows(labels.iter().map(|label| args![issue.id, *label, issue.class.number(), issue.number]));
        tx.execute(query.sql(), query.args()).await.map(|_| ())
    }

    pub(crate) async fn remove_labels(&self, tx: &mut Tx, issue: &Issue, labels: &[i64]) -> Result<(), DbError> {
        if labels.is_empty() {
            return Ok(());
        }
        let mut query = Query::new("DELETE FROM issue_labels WHERE issue_id = ");
        query.bind(issue.id).push(" AND label_id IN ").bind_list(labels.iter().copied());
        tx.execute(query.sql(), query.args()).await.map(|_| ())
    }

    /// Copies the class of an issue to the rows of its labels.
    pub(crate) async fn reclassify_labels(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        let sql = "UPDATE issue_labels SET class = $2 WHERE issue_id = $1";
        tx.execute(sql, &args![issue.id, issue.class.number()]).await.map(|_| ())
    }

    /// Returns the ids of all labels linked to an issue. Includes deleted labels, which are still
    /// counted.
    pub(crate) async fn tied_labels(&self, tx: &mut Tx, issue: &Issue) -> Result<Vec<i64>, DbError> {
        let sql = "SELECT label_id FROM issue_labels WHERE issue_id = $1";
        let rows: Vec<(i64,)> = tx.all(sql, &args![issue.id]).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}
