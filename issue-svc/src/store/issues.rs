//! Rows of issues and pull requests.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::IssueTable;
use super::Reader;
use super::assignees;
use super::issue_parts::{self, PartsRow};
use super::listed_texts::TextHead;
use crate::model::{Class, FullIssue, Issue, NewIssue};

const COLUMNS: &str = "issues.id, issues.repository_id, issues.number, issues.user_id, issues.title, issues.body, \
     issues.class, issues.assignee_id, issues.other_assignees, issues.milestone_id, issues.comment_count, issues.created_us, issues.updated_us, \
     issues.closed_us, issues.due_us";
/// The columns of a list, with the first 65,536 bytes of the body
/// ([`MAX_LISTED_TEXT_BYTES`](super::listed_texts::MAX_LISTED_TEXT_BYTES)).
const LISTED_POSTGRES: &str = "SELECT issues.id, issues.repository_id, issues.number, issues.user_id, issues.title, '' AS body, \
     SUBSTR(CONVERT_TO(issues.body, 'UTF8'), 1, 65536) AS text_head, CAST(OCTET_LENGTH(issues.body) AS BIGINT) AS text_bytes, \
     issues.class, issues.assignee_id, issues.other_assignees, issues.milestone_id, issues.comment_count, issues.created_us, issues.updated_us, \
     issues.closed_us, issues.due_us";
const LISTED_SQLITE: &str = "SELECT issues.id, issues.repository_id, issues.number, issues.user_id, issues.title, '' AS body, \
     SUBSTR(CAST(issues.body AS BLOB), 1, 65536) AS text_head, OCTET_LENGTH(issues.body) AS text_bytes, \
     issues.class, issues.assignee_id, issues.other_assignees, issues.milestone_id, issues.comment_count, issues.created_us, issues.updated_us, \
     issues.closed_us, issues.due_us";
const INSERT: &str = "INSERT INTO issues (repository_id, number, user_id, title, body, class, assignee_id, other_assignees, \
     milestone_id, comment_count, created_us, updated_us, closed_us, due_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $10, $11, $12) \
     RETURNING id";
const UPDATE: &str = "UPDATE issues SET class = $2, assignee_id = $3, other_assignees = $4, milestone_id = $5, updated_us = $6, \
     closed_us = $7, due_us = $8 WHERE id = $1";
const UPDATE_TEXTS: &str = "UPDATE issues SET title = $2, body = $3 WHERE id = $1";
const TOUCH: &str = "UPDATE issues SET comment_count = comment_count + $2, updated_us = $3 WHERE id = $1";

#[derive(FromRow)]
pub(super) struct IssueRow {
    id: i64,
    repository_id: i64,
    number: i64,
    user_id: i64,
    title: String,
    body: String,
    class: i64,
    assignee_id: i64,
    other_assignees: String,
    milestone_id: i64,
    comment_count: i64,
    created_us: i64,
    updated_us: i64,
    closed_us: Option<i64>,
    due_us: Option<i64>,
    #[sqlx(flatten)]
    head: TextHead,
}

impl From<IssueRow> for Issue {
    fn from(row: IssueRow) -> Self {
        let (body, is_truncated) = row.head.or(row.body);
        Self {
            id: IssueId(row.id),
            repository: RepositoryId(row.repository_id),
            number: row.number,
            author: UserId(row.user_id),
            title: row.title,
            body,
            is_truncated,
            class: Class::from_number(row.class),
            assignees: assignees::of_row(row.assignee_id, &row.other_assignees),
            milestone_id: row.milestone_id,
            due_us: row.due_us,
            comment_count: row.comment_count,
            created_us: row.created_us,
            updated_us: row.updated_us,
            closed_us: row.closed_us,
        }
    }
}

#[derive(FromRow)]
pub(super) struct FullIssueRow {
    #[sqlx(flatten)]
    issue: IssueRow,
    #[sqlx(flatten)]
    parts: PartsRow,
    /// The number of issues in the whole list, in statements that count it.
    #[sqlx(default)]
    pub(super) total: Option<i64>,
}

impl From<FullIssueRow> for FullIssue {
    fn from(row: FullIssueRow) -> Self {
        row.parts.complete(row.issue.into())
    }
}

impl IssueTable {
    /// Inserts `new`, without its labels, with a number that [`IssueTable::advance`] assigned in
    /// the same transaction.
    pub(crate) async fn insert(&self, tx: &mut Tx, new: &NewIssue, number: i64, now_us: i64) -> Result<Issue, DbError> {
        let class = Class { is_pull_request: new.pull_request.is_some(), is_closed: new.is_closed };
        let issue = Issue {
            id: IssueId(0),
            repository: new.repository,
            number,
            author: new.author,
            title: new.title.as_str().to_owned(),
            body: new.body.as_str().to_owned(),
            is_truncated: false,
            class,
            assignees: new.assignees.clone(),
            milestone_id: new.milestone_id,
            due_us: new.due_us,
            comment_count: 0,
            created_us: now_us,
            updated_us: now_us,
            closed_us: new.is_closed.then_some(now_us),
        };
        let (assignee, others) = assignees::to_row(&issue.assignees);
        let (title, body) = (issue.title.as_str(), issue.body.as_str());
        let args = args![
            issue.repository,
            number,
            issue.author,
            title,
            body,
            class.number(),
            assignee,
            others.as_str(),
            issue.milestone_id,
            now_us,
            issue.closed_us,
            issue.due_us
        ];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        if let Some(pull) = &new.pull_request {
            self.insert_pull(tx, IssueId(id), new.repository, pull, !new.is_closed).await?;
        }
        let issue = Issue { id: IssueId(id), ..issue };
        self.add_other_assignees(tx, &issue).await?;
        Ok(issue)
    }

    /// Updates an issue, except for its texts and the number of comments.
    pub(crate) async fn update(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        let (assignee, others) = assignees::to_row(&issue.assignees);
        let args = args![
            issue.id,
            issue.class.number(),
            assignee,
            others.as_str(),
            issue.milestone_id,
            issue.updated_us,
            issue.closed_us,
            issue.due_us
        ];
        tx.execute(UPDATE, &args).await.map(|_| ())
    }

    /// Updates the title and the body.
    pub(crate) async fn update_texts(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        tx.execute(UPDATE_TEXTS, &args![issue.id, issue.title.as_str(), issue.body.as_str()]).await.map(|_| ())
    }

    /// Updates the time of the last change and adds to the number of comments.
    pub(crate) async fn touch(&self, tx: &mut Tx, issue: IssueId, comments: i64, now_us: i64) -> Result<(), DbError> {
        tx.execute(TOUCH, &args![issue, comments, now_us]).await.map(|_| ())
    }

    /// Begins a list statement with the columns of issues and their parts. More columns may follow,
    /// then [`issue_parts::FROM`] and the conditions.
    pub(super) fn select_listed(&self) -> Query {
        let mut query = Query::new(self.db.pick(LISTED_POSTGRES, LISTED_SQLITE));
        query.push(issue_parts::COLUMNS);
        query
    }

    pub(crate) async fn find(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        number: i64,
    ) -> Result<Option<Issue>, DbError> {
        let mut query = Query::new("SELECT ");
        query.push(COLUMNS).push(" FROM issues WHERE repository_id = ").bind(repository);
        query.push(" AND number = ").bind(number);
        let row: Option<IssueRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(row.map(Issue::from))
    }

    pub(crate) async fn find_full(&self, repository: RepositoryId, number: i64) -> Result<Option<FullIssue>, DbError> {
        let mut query = Query::new("SELECT ");
        query.push(COLUMNS).push(issue_parts::COLUMNS).push(issue_parts::FROM);
        query.push(" WHERE issues.repository_id = ").bind(repository).push(" AND issues.number = ").bind(number);
        let row: Option<FullIssueRow> = self.db.lookup(query.sql(), query.args()).await?;
        Ok(row.map(FullIssue::from))
    }

    /// Returns the ids of those issues that exist, given by repository and number.
    pub(crate) async fn ids(&self, tx: &mut Tx, issues: &[(RepositoryId, i64)]) -> Result<Vec<IssueId>, DbError> {
        let mut query = Query::new("SELECT id FROM issues WHERE (repository_id, number) IN (VALUES ");
        query.bind_rows(issues.iter().map(|(repository, number)| args![*repository, *number])).push(")");
        let rows: Vec<(i64,)> = tx.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(id,)| IssueId(id)).collect())
    }

    /// Adds the labels, milestone and branches of an issue. Fails if the issue does not exist.
    pub(crate) async fn complete_one(&self, reader: Reader<'_>, issue: Issue) -> Result<FullIssue, DbError> {
        let mut query = Query::new(issue_parts::SELECT_OF_ONE);
        query.push(issue_parts::COLUMNS).push(issue_parts::FROM_ONE).bind(issue.milestone_id);
        query.push(" WHERE issues.id = ").bind(issue.id);
        let parts: Option<PartsRow> = reader.optional(query.sql(), query.args()).await?;
        Ok(parts.ok_or(sqlx::Error::RowNotFound)?.complete(issue))
    }
}
