//! Milestones of repositories. Their issue counts are those of their lists.

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;
use sqlx_macros::FromRow;

use super::IssueTable;
use super::Reader;
use super::listed_texts::TextHead;
use crate::model::Milestone;

const SELECT: &str =
    "SELECT milestones.id, milestones.repository_id, title, description, is_closed, due_us, closed_us, created_us";
/// The columns of a list. Those of [`IssueTable::push_text_head`] follow.
const SELECT_LISTED: &str = "SELECT milestones.id, milestones.repository_id, title, '' AS description, is_closed, due_us, closed_us, created_us, ";
/// Each count is a sum of single rows: open and closed issues, open and closed pull requests.
const COUNTS: &str = ", COALESCE((SELECT CAST(SUM(count) AS BIGINT) FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id \
     AND list = 3 AND list_id = milestones.id AND block = -1 AND class IN (0, 2)), 0) AS open_count, \
     COALESCE((SELECT CAST(SUM(count) AS BIGINT) FROM issue_tallies WHERE issue_tallies.repository_id = milestones.repository_id \
     AND list = 3 AND list_id = milestones.id AND block = -1 AND class IN (1, 3)), 0) AS closed_count FROM milestones";
const INSERT: &str = "INSERT INTO milestones (repository_id, title, description, is_closed, due_us, created_us) \
     VALUES ($1, $2, $3, FALSE, $4, $5) RETURNING id";
const UPDATE: &str = "UPDATE milestones SET title = $2, description = $3, is_closed = $4, due_us = $5, closed_us = $6 \
     WHERE id = $1";
const DELETE: &str = "DELETE FROM milestones WHERE repository_id = $1 AND id = $2";
const TITLES: &str = "SELECT id, title FROM milestones WHERE repository_id = $1 ORDER BY id";

#[derive(FromRow)]
struct MilestoneRow {
    id: i64,
    repository_id: i64,
    title: String,
    description: String,
    is_closed: bool,
    due_us: Option<i64>,
    closed_us: Option<i64>,
    created_us: i64,
    open_count: i64,
    closed_count: i64,
    #[sqlx(flatten)]
    head: TextHead,
}

impl From<MilestoneRow> for Milestone {
    fn from(row: MilestoneRow) -> Self {
        let (description, is_truncated) = row.head.or(row.description);
        Self {
            id: row.id,
            repository: RepositoryId(row.repository_id),
            title: row.title,
            description,
            is_truncated,
            is_closed: row.is_closed,
            due_us: row.due_us,
            closed_us: row.closed_us,
            created_us: row.created_us,
            open_count: row.open_count,
            closed_count: row.closed_count,
        }
    }
}

impl IssueTable {
    /// Inserts an open milestone.
    pub(crate) async fn insert_milestone(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        title: &str,
        description: &str,
        due_us: Option<i64>,
        now_us: i64,
    ) -> Result<Milestone, DbError> {
        let (id,): (i64,) = tx.one(INSERT, &args![repository, title, description, due_us, now_us]).await?;
        let (title, description) = (title.to_owned(), description.to_owned());
        Ok(Milestone {
            id,
            repository,
            title,
            description,
            is_truncated: false,
            is_closed: false,
            due_us,
            closed_us: None,
            created_us: now_us,
            open_count: 0,
            closed_count: 0,
        })
    }

    pub(crate) async fn update_milestone(&self, tx: &mut Tx, milestone: &Milestone) -> Result<(), DbError> {
        let Milestone { id, title, description, is_closed, due_us, closed_us, .. } = milestone;
        let args = args![*id, title.as_str(), description.as_str(), *is_closed, *due_us, *closed_us];
        tx.execute(UPDATE, &args).await.map(|_| ())
    }

    pub(crate) async fn milestone(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        id: i64,
    ) -> Result<Option<Milestone>, DbError> {
        let mut query = Query::new(SELECT);
        query.push(COUNTS).push(" WHERE milestones.repository_id = ").bind(repository);
        query.push(" AND milestones.id = ").bind(id);
        let row: Option<MilestoneRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(Milestone::from))
    }

    /// Returns the id of the milestone that a text names by its id, or else by its title: of several
    /// the newest, first among those in the same case. Compares all titles here, because the
    /// databases fold only ASCII case.
    pub(crate) async fn milestone_named(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        text: &str,
    ) -> Result<Option<i64>, DbError> {
        let mut all: Vec<(i64, String)> = reader.all(TITLES, &args![repository]).await?;
        // Of several with the name, the last one is taken.
        all.sort_by_key(|(_, title)| title == text);
        Ok(IdOrName::new(text).find(&all, |(id, title)| (*id, title)).map(|(id, _)| *id))
    }

    /// Returns a page of the repository's milestones by id, and their total number. `is_closed`
    /// filters by state.
    pub(crate) async fn list_milestones(
        &self,
        repository: RepositoryId,
        is_closed: Option<bool>,
        page: Page,
    ) -> Result<(Vec<Milestone>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" WHERE milestones.repository_id = ").bind(repository);
            if let Some(is_closed) = is_closed {
                query.push(" AND is_closed = ").bind(is_closed);
            }
        };
        let on_page = |query: &mut Query| {
            filter(query);
            query.push(" ORDER BY milestones.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        };
        let mut texts = Query::new("SELECT description AS text FROM milestones");
        on_page(&mut texts);
        let max_bytes = self.listed_text_bytes(page, texts).await?;
        let mut list = Query::new(SELECT_LISTED);
        self.push_text_head(&mut list, "description", max_bytes);
        on_page(list.push(COUNTS));
        let rows: Vec<MilestoneRow> = self.db.all(list.sql(), list.args()).await?;
        let mut count = Query::new("SELECT COUNT(*) FROM milestones");
        filter(&mut count);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((rows.into_iter().map(Milestone::from).collect(), total))
    }

    /// Deletes a milestone, which hides it from all issues. [`IssueTable::purge_milestone`] clears
    /// the references to it later. Returns false if the milestone does not exist.
    pub(crate) async fn delete_milestone(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        id: i64,
    ) -> Result<bool, DbError> {
        Ok(tx.execute(DELETE, &args![repository, id]).await? > 0)
    }
}
