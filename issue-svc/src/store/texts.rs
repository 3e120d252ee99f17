//! The search words and mentioned users of texts, stored when a text is written.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::IssueId;

use super::IssueTable;
use crate::model::Issue;
use crate::model::words;

const INSERT_WORDS_SQLITE: &str = "INSERT INTO issue_words (rowid, words) VALUES ($1, $2)";
const UPDATE_WORDS_SQLITE: &str = "UPDATE issue_words SET words = $2 WHERE rowid = $1";
const INSERT_WORDS_POSTGRES: &str = "INSERT INTO issue_words (issue_id, words) \
     VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))";
const UPDATE_WORDS_POSTGRES: &str = "INSERT INTO issue_words (issue_id, words) \
     VALUES ($1, array_to_tsvector(string_to_array($2, ' '))) ON CONFLICT (issue_id) DO UPDATE SET words = excluded.words";

/// The text that contains a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MentionSource {
    /// The body of the issue.
    Body,
    Comment(i64),
}

impl MentionSource {
    fn comment_id(self) -> i64 {
        match self {
            Self::Body => 0,
            Self::Comment(id) => id,
        }
    }
}

impl IssueTable {
    /// Adds the words of a new issue to the search index.
    pub(crate) async fn insert_words(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        let sql = tx.pick(INSERT_WORDS_POSTGRES, INSERT_WORDS_SQLITE);
        self.write_words(tx, sql, issue).await
    }

    pub(crate) async fn update_words(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        let sql = tx.pick(UPDATE_WORDS_POSTGRES, UPDATE_WORDS_SQLITE);
        self.write_words(tx, sql, issue).await
    }

    async fn write_words(&self, tx: &mut Tx, sql: &'static str, issue: &Issue) -> Result<(), DbError> {
        let words = words::indexed_text(issue.repository, &issue.title, &issue.body);
        tx.execute(sql, &args![issue.id, words]).await.map(|_| ())
    }

    /// Adds the names that a new text mentions, as distinct keys.
    pub(crate) async fn insert_mentions(
        &self,
        tx: &mut Tx,
        issue: &Issue,
        source: MentionSource,
        names: &[String],
    ) -> Result<(), DbError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut query = Query::new("INSERT INTO mentions (issue_id, comment_id, name_key, repository_id) VALUES ");
        query.bind_rows(names.iter().map(|name| args![issue.id, source.comment_id(), name, issue.repository]));
        tx.execute(query.sql(), query.args()).await.map(|_| ())
    }

    pub(crate) async fn delete_mentions(
        &self,
        tx: &mut Tx,
        issue: IssueId,
        source: MentionSource,
    ) -> Result<(), DbError> {
        let sql = "DELETE FROM mentions WHERE issue_id = $1 AND comment_id = $2";
        tx.execute(sql, &args![issue, source.comment_id()]).await.map(|_| ())
    }
}
