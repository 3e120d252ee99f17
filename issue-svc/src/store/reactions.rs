//! Reactions to issues and comments.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};

use super::list::MAX_UNCOUNTED_ROWS;
use super::{IssueTable, Reader};
use crate::model::{Class, Reaction, ReactionContent, ReactionSubject, ReactionTarget};

const ISSUE: &str = "SELECT id, class FROM issues WHERE repository_id = $1 AND number = $2";
const COMMENT: &str = "SELECT issues.id, issues.class FROM comments JOIN issues ON issues.id = comments.issue_id \
     WHERE comments.repository_id = $1 AND comments.id = $2";
const INSERT: &str = "INSERT INTO reactions (issue_id, comment_id, user_id, content, created_us) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (issue_id, comment_id, user_id, content) DO NOTHING";
const CREATED: &str =
    "SELECT created_us FROM reactions WHERE issue_id = $1 AND comment_id = $2 AND user_id = $3 AND content = $4";
const DELETE: &str = "DELETE FROM reactions WHERE issue_id = $1 AND comment_id = $2 AND user_id = $3 AND content = $4";
const DELETE_OF_COMMENT: &str = "DELETE FROM reactions WHERE issue_id = $1 AND comment_id = $2";
const LIST: &str = "SELECT user_id, content, created_us FROM reactions WHERE issue_id = $1 AND comment_id = $2 \
     ORDER BY id LIMIT $3 OFFSET $4";
const COUNT: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM reactions WHERE issue_id = $1 AND comment_id = $2 LIMIT $3) AS found";
const VERSION: &str = "SELECT COUNT(*), COALESCE(MAX(id), 0) FROM reactions WHERE issue_id = $1 AND comment_id = $2";

#[derive(Debug)]
pub(crate) struct ReactionPage {
    /// Oldest first.
    pub(crate) reactions: Vec<Reaction>,
    /// The number in all pages, as far as they were counted.
    pub(crate) total: i64,
    /// Whether there are more than were counted.
    pub(crate) is_partial: bool,
}

impl IssueTable {
    /// Finds what reactions in a repository are to.
    pub(crate) async fn reaction_target(
        &self,
        reader: Reader<'_>,
        repository: RepositoryId,
        subject: ReactionSubject,
    ) -> Result<Option<ReactionTarget>, DbError> {
        let (sql, id, comment_id) = match subject {
            ReactionSubject::Issue(number) => (ISSUE, number, 0),
            ReactionSubject::Comment(id) => (COMMENT, id, id),
        };
        let row: Option<(i64, i64)> = reader.optional(sql, &args![repository, id]).await?;
        Ok(row.map(|(issue, class)| ReactionTarget {
            issue: IssueId(issue),
            comment_id,
            is_pull_request: Class::from_number(class).is_pull_request,
        }))
    }

    /// Adds a reaction, unless it is there. Returns when it was added, and whether it was not there
    /// before.
    pub(crate) async fn add_reaction(
        &self,
        tx: &mut Tx,
        target: ReactionTarget,
        user: UserId,
        content: ReactionContent,
        now_us: i64,
    ) -> Result<(i64, bool), DbError> {
        let (issue, comment_id, content) = (target.issue, target.comment_id, content.as_str());
        let is_new = tx.execute(INSERT, &args![issue, comment_id, user, content, now_us]).await? > 0;
        let (created_us,): (i64,) = tx.one(CREATED, &args![issue, comment_id, user, content]).await?;
        Ok((created_us, is_new))
    }

    pub(crate) async fn delete_reaction(
        &self,
        tx: &mut Tx,
        target: ReactionTarget,
        user: UserId,
        content: ReactionContent,
    ) -> Result<(), DbError> {
        let args = args![target.issue, target.comment_id, user, content.as_str()];
        tx.execute(DELETE, &args).await.map(drop)
    }

    /// Deletes the reactions to a comment.
    pub(crate) async fn delete_reactions(&self, tx: &mut Tx, issue: IssueId, comment_id: i64) -> Result<(), DbError> {
        tx.execute(DELETE_OF_COMMENT, &args![issue, comment_id]).await.map(drop)
    }

    /// Returns a page of reactions. Counts at most [`MAX_UNCOUNTED_ROWS`], where the list ends.
    pub(crate) async fn list_reactions(&self, target: ReactionTarget, page: Page) -> Result<ReactionPage, DbError> {
        let (issue, comment_id) = (target.issue, target.comment_id);
        let (found,): (i64,) = self.db.one(COUNT, &args![issue, comment_id, MAX_UNCOUNTED_ROWS + 1]).await?;
        let (total, is_partial) = (found.min(MAX_UNCOUNTED_ROWS), found > MAX_UNCOUNTED_ROWS);
        if page.offset() >= total {
            return Ok(ReactionPage { reactions: Vec::new(), total, is_partial });
        }
        let size = page.size().min(total - page.offset());
        let rows: Vec<(i64, String, i64)> = self.db.all(LIST, &args![issue, comment_id, size, page.offset()]).await?;
        let reaction = |(user, content, created_us)| Reaction { user: UserId(user), content, created_us };
        Ok(ReactionPage { reactions: rows.into_iter().map(reaction).collect(), total, is_partial })
    }

    /// Returns a text that differs for every two states of a target's reactions. Ids grow: if the
    /// last one is the same, reactions were at most removed.
    pub(crate) async fn reactions_version(
        &self,
        reader: Reader<'_>,
        target: ReactionTarget,
    ) -> Result<String, DbError> {
        let row: Option<(i64, i64)> = reader.optional(VERSION, &args![target.issue, target.comment_id]).await?;
        let (count, last) = row.unwrap_or_default();
        Ok(format!("{count} {last}"))
    }
}
