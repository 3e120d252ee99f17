//! Labels of repositories, of organizations and of issues.
//!
//! In rows of labels and counters, an organization has its id negated in the column of
//! repositories. A row of `issue_labels` has the repository of the issue if the label is one of an
//! organization, so that the issues of one repository can be read from an index.

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use sqlx_macros::FromRow;

use super::IssueTable;
use super::Reader;
use crate::model::{Issue, Label, LabelOwner, NewLabel};

const INSERT: &str = "INSERT INTO labels (repository_id, name, name_key, color, description) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (repository_id, name_key) DO NOTHING RETURNING id";
const UPDATE: &str =
    "UPDATE labels SET name = $3, name_key = $4, color = $5, description = $6 WHERE repository_id = $1 AND id = $2";
const FIND: &str =
    "SELECT id, repository_id, name, color, description FROM labels WHERE repository_id = $1 AND id = $2";
const FIND_NAMED: &str =
    "SELECT id, repository_id, name, color, description FROM labels WHERE repository_id = $1 AND name_key = $2";
const LIST: &str = "SELECT id, repository_id, name, color, description FROM labels WHERE repository_id = $1 ORDER BY name_key LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM labels WHERE repository_id = $1";
const DELETE: &str = "DELETE FROM labels WHERE repository_id = $1 AND id = $2";
const DELETE_ALL: &str = "DELETE FROM labels WHERE repository_id = $1 RETURNING id";

#[derive(FromRow)]
pub(super) struct LabelRow {
    id: i64,
    repository_id: i64,
    name: String,
    color: String,
    description: String,
}

impl From<LabelRow> for Label {
    fn from(row: LabelRow) -> Self {
        Self {
            id: row.id,
            owner: LabelOwner::of_row(row.repository_id),
            name: row.name,
            color: row.color,
            description: row.description,
        }
    }
}

impl IssueTable {
    /// Inserts a label. Returns `None` if its owner has one with this name.
    pub(crate) async fn insert_label(
        &self,
        tx: &mut Tx,
        owner: LabelOwner,
        new: &NewLabel,
    ) -> Result<Option<Label>, DbError> {
        let NewLabel { name, color, description } = new;
        let args = args![owner.row(), name.as_str(), name.key(), color.as_str(), description.as_str()];
        let row: Option<(i64,)> = tx.optional(INSERT, &args).await?;
        let (color, description) = (color.as_str().to_owned(), description.as_str().to_owned());
        Ok(row.map(|(id,)| Label { id, owner, name: name.as_str().to_owned(), color, description }))
    }

    /// Updates the name, color and description of a label. A name that another label has is a unique violation.
    pub(crate) async fn update_label(&self, tx: &mut Tx, label: &Label) -> Result<(), DbError> {
        let key = label.name.to_lowercase();
        let (color, description) = (label.color.as_str(), label.description.as_str());
        let args = args![label.owner.row(), label.id, label.name.as_str(), key, color, description];
        tx.execute(UPDATE, &args).await.map(|_| ())
    }

    pub(crate) async fn label(&self, reader: Reader<'_>, owner: LabelOwner, id: i64) -> Result<Option<Label>, DbError> {
        let row: Option<LabelRow> = reader.optional(FIND, &args![owner.row(), id]).await?;
        Ok(row.map(Label::from))
    }

    /// Finds a label by its name, ignoring case.
    pub(crate) async fn label_named(
        &self,
        reader: Reader<'_>,
        owner: LabelOwner,
        name: &str,
    ) -> Result<Option<Label>, DbError> {
        let row: Option<LabelRow> = reader.optional(FIND_NAMED, &args![owner.row(), name.to_lowercase()]).await?;
        Ok(row.map(Label::from))
    }

    /// Returns the owners' labels with one of the ids or names, ordered by name. Of labels with the
    /// same name, that of the repository is the last.
    pub(crate) async fn labels_matching(
        &self,
        reader: Reader<'_>,
        owners: &[LabelOwner],
        ids: &[i64],
        names: &[String],
    ) -> Result<Vec<Label>, DbError> {
        let mut query =
            Query::new("SELECT id, repository_id, name, color, description FROM labels WHERE repository_id IN ");
        query.bind_list(owners.iter().map(|owner| owner.row()));
        query.push(" AND (id IN ").bind_list(ids.iter().copied());
        query.push(" OR name_key IN ").bind_list(names.iter().map(|name| IdOrName::new(name).name_key()));
        query.push(") ORDER BY name_key, repository_id");
        let rows: Vec<LabelRow> = reader.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(Label::from).collect())
    }

    /// Returns a page of the owner's labels by name, and their total number.
    pub(crate) async fn list_labels(&self, owner: LabelOwner, page: Page) -> Result<(Vec<Label>, i64), DbError> {
        let rows: Vec<LabelRow> = self.db.all(LIST, &args![owner.row(), page.size(), page.offset()]).await?;
        let (total,): (i64,) = self.db.one(COUNT, &args![owner.row()]).await?;
        Ok((rows.into_iter().map(Label::from).collect(), total))
    }

    /// Deletes a label, which hides it from all issues. [`IssueTable::purge`] removes the links to
    /// issues later. Returns false if the owner has no such label.
    pub(crate) async fn delete_label(&self, tx: &mut Tx, owner: LabelOwner, id: i64) -> Result<bool, DbError> {
        Ok(tx.execute(DELETE, &args![owner.row(), id]).await? > 0)
    }

    /// Deletes all labels of an owner, and returns their ids.
    pub(crate) async fn delete_labels(&self, tx: &mut Tx, owner: LabelOwner) -> Result<Vec<i64>, DbError> {
        let rows: Vec<(i64,)> = tx.all(DELETE_ALL, &args![owner.row()]).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Keeps labels of organizations from being deleted until the transaction ends, so that their
    /// deletion finds the links that it adds. Labels of a repository are kept by the lock of its
    /// counters. Returns false if one was deleted meanwhile.
    pub(crate) async fn keep_labels(&self, tx: &mut Tx, labels: &[Label]) -> Result<bool, DbError> {
        let ids: Vec<i64> = labels.iter().filter(|label| label.is_shared()).map(|label| label.id).collect();
        // SQLite has one writer at a time.
        if ids.is_empty() || tx.pick(false, true) {
            return Ok(true);
        }
        let mut query = Query::new("SELECT id FROM labels WHERE id IN ");
        query.bind_list(ids.iter().copied()).push(" ORDER BY id FOR KEY SHARE");
        let kept: Vec<(i64,)> = tx.all(query.sql(), query.args()).await?;
        Ok(kept.len() == ids.len())
    }

    /// Adds labels to an issue that has none of them yet.
    pub(crate) async fn add_labels(&self, tx: &mut Tx, issue: &Issue, labels: &[Label]) -> Result<(), DbError> {
        if labels.is_empty() {
            return Ok(());
        }
        let mut query =
            Query::new("INSERT INTO issue_labels (issue_id, label_id, class, number, repository_id) VALUES ");
        query.bind_rows(labels.iter().map(|label| {
            let repository = if label.is_shared() { issue.repository.0 } else { 0 };
            args![issue.id, label.id, issue.class.number(), issue.number, repository]
        }));
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
