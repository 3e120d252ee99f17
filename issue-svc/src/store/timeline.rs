//! Timelines of issues: changes, and references by commits and other issues.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;
use sqlx_macros::FromRow;

use super::IssueTable;

const COLUMNS: &str = "action, user_id, created_us, assignee_id, label_id, label_color, old_text, new_text, commit_id, \
     source_repository_id, source_issue_id, source_number, review_id, review_state";
const LABEL: &str = ", COALESCE((SELECT labels.repository_id FROM labels WHERE labels.id = timeline.label_id), 0) AS label_owner, \
     COALESCE((SELECT labels.description FROM labels WHERE labels.id = timeline.label_id), '') AS label_description";
const MAX_STATEMENT_ROWS: usize = 500;
/// Repositories whose references to one issue are shown.
const MAX_SOURCES: i64 = 1000;

/// An entry of a timeline. Fields that its action does not use are zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromRow)]
pub(crate) struct TimelineEntry {
    pub(crate) id: i64,
    pub(crate) action: i64,
    pub(crate) user_id: i64,
    pub(crate) created_us: i64,
    pub(crate) assignee_id: i64,
    pub(crate) label_id: i64,
    pub(crate) label_color: String,
    /// The old title, the name of the label, the title of the milestone, the old head, the name
    /// of the team, why a review was dismissed, the old target branch, or the old due date in
    /// microseconds since 1970.
    pub(crate) old_text: String,
    /// The new title, target branch or due date.
    pub(crate) new_text: String,
    pub(crate) commit_id: String,
    pub(crate) source_repository_id: i64,
    pub(crate) source_issue_id: i64,
    pub(crate) source_number: i64,
    pub(crate) review_id: i64,
    /// A number of `ReviewState`.
    pub(crate) review_state: i64,
    /// Read only: what stands for the owner of the label in rows, zero for a deleted label.
    #[sqlx(default)]
    pub(crate) label_owner: i64,
    /// Read only: what the label is for today, empty for a deleted label.
    #[sqlx(default)]
    pub(crate) label_description: String,
}

impl TimelineEntry {
    /// Returns an entry with only the fields that every action has.
    pub(crate) fn new(action: TimelineAction, actor: UserId, now_us: i64) -> Self {
        Self { action: i64::from(i32::from(action)), user_id: actor.0, created_us: now_us, ..Self::default() }
    }
}

impl IssueTable {
    /// Appends entries to the timeline of an issue.
    pub(crate) async fn add_entries(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        entries: &[TimelineEntry],
    ) -> Result<(), DbError> {
        for entries in entries.chunks(MAX_STATEMENT_ROWS) {
            let mut query = insertion();
            for (place, entry) in entries.iter().enumerate() {
                push_row(&mut query, place, issue, entry);
            }
            tx.execute(query.sql(), query.args()).await?;
            self.grown.add(&[issue]);
        }
        Ok(())
    }

    /// Adds a reference to the timelines of issues, unless the same commit or issue already refers
    /// to them. Returns the number added.
    pub(crate) async fn add_references(
        &self,
        tx: &mut Tx,
        issues: &[IssueId],
        entry: &TimelineEntry,
    ) -> Result<u64, DbError> {
        if issues.is_empty() {
            return Ok(0);
        }
        let mut query = insertion();
        for (place, issue) in issues.iter().enumerate() {
            push_row(&mut query, place, *issue, entry);
        }
        query.push(" ON CONFLICT (issue_id, commit_id, source_issue_id) WHERE action = 11 DO NOTHING");
        self.grown.add(issues);
        tx.execute(query.sql(), query.args()).await
    }

    /// Returns the repositories, except `own`, with commits or issues that refer to an issue.
    pub(crate) async fn sources(&self, issue: IssueId, own: RepositoryId) -> Result<Vec<RepositoryId>, DbError> {
        let sql = "SELECT DISTINCT source_repository_id FROM timeline WHERE issue_id = $1 AND source_repository_id <> 0 \
             AND source_repository_id <> $2 ORDER BY source_repository_id LIMIT $3";
        let rows: Vec<(i64,)> = self.db.all(sql, &args![issue, own, MAX_SOURCES]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Returns a page of an issue's timeline, oldest first, and the total number of entries.
    /// Includes only references from `visible` repositories.
    pub(crate) async fn timeline(
        &self,
        issue: IssueId,
        visible: &[RepositoryId],
        page: Page,
    ) -> Result<(Vec<TimelineEntry>, i64), DbError> {
        let filtered = |mut query: Query| {
            query.push(" FROM timeline WHERE issue_id = ").bind(issue).push(" AND (action <> 11");
            query.push(" OR source_repository_id IN ").bind_list(visible.iter().copied()).push(")");
            query
        };
        let mut list = Query::new("SELECT id, ");
        list.push(COLUMNS).push(LABEL);
        let mut list = filtered(list);
        list.push(" ORDER BY id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let entries = self.db.all(list.sql(), list.args()).await?;
        let count = filtered(Query::new("SELECT COUNT(*)"));
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((entries, total))
    }
}

fn insertion() -> Query {
    let mut query = Query::new("INSERT INTO timeline (issue_id, ");
    query.push(COLUMNS).push(") VALUES ");
    query
}

fn push_row(query: &mut Query, place: usize, issue: IssueId, entry: &TimelineEntry) {
    query.push(if place == 0 { "(" } else { ", (" }).bind(issue);
    for value in [entry.action, entry.user_id, entry.created_us, entry.assignee_id, entry.label_id] {
        query.push(", ").bind(value);
    }
    for text in [&entry.label_color, &entry.old_text, &entry.new_text, &entry.commit_id] {
        query.push(", ").bind(text);
    }
    let source = [entry.source_repository_id, entry.source_issue_id, entry.source_number];
    for value in source.into_iter().chain([entry.review_id, entry.review_state]) {
        query.push(", ").bind(value);
    }
    query.push(")");
}
