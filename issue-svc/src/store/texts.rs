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

const DELETE_REVIEW_MENTIONS: &str = "DELETE FROM mentions WHERE issue_id = $1 AND (comment_id = $2 \
     OR comment_id IN (SELECT id FROM review_comments WHERE review_id = $3))";
const MAX_STATEMENT_ROWS: usize = 500;

/// The text that contains a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MentionSource {
    /// The body of the issue.
    Body,
    /// Of an issue or of a review, whose ids differ.
    Comment(i64),
    /// The body of a review.
    Review(i64),
}

impl MentionSource {
    fn comment_id(self) -> i64 {
        match self {
            Self::Body => 0,
            Self::Comment(id) => id,
            Self::Review(id) => -id,
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
        self.insert_all_mentions(tx, issue, &[(source, names)]).await
    }

    /// Adds the names that new texts mention.
    pub(crate) async fn insert_all_mentions(
        &self,
        tx: &mut Tx,
        issue: &Issue,
        texts: &[(MentionSource, &[String])],
    ) -> Result<(), DbError> {
        let mentions = texts.iter().flat_map(|(source, names)| names.iter().map(|name| (source.comment_id(), name)));
        let mentions: Vec<_> = mentions.collect();
        for mentions in mentions.chunks(MAX_STATEMENT_ROWS) {
            let mut query = Query::new("INSERT INTO mentions (issue_id, comment_id, name_key, repository_id) VALUES ");
            let row = |(comment_id, name): &(i64, &String)| args![issue.id, *comment_id, *name, issue.repository];
            query.bind_rows(mentions.iter().map(row));
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(())
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

    /// Deletes the mentions in a review and in its comments, which must still be there.
    pub(crate) async fn delete_review_mentions(&self, tx: &mut Tx, issue: IssueId, review: i64) -> Result<(), DbError> {
        let source = MentionSource::Review(review).comment_id();
        tx.execute(DELETE_REVIEW_MENTIONS, &args![issue, source, review]).await.map(|_| ())
    }
}
