//! SQL and rows of issues, comments, reviews, reactions, labels, milestones and timelines. No other module names these
//! tables.
//!
//! Every write begins with [`IssueTable::advance`], which locks the repository's counters. Whatever
//! the write reads after that does not change.

mod assignees;
mod comments;
mod counters;
mod issue_parts;
mod issues;
mod labels;
mod list;
mod listed_texts;
mod milestones;
mod pulls;
mod purge;
mod reactions;
mod review_comments;
mod review_requests;
mod reviews;
mod scheduled_merges;
mod search;
mod tallies;
#[cfg(test)]
mod tests;
mod texts;
mod timeline;
mod timeline_retention;
mod verdicts;

use ferrite_db::{Db, DbError, Row, Tx, Value};

pub(crate) use counters::{CounterChange, Counters};
pub(crate) use list::{Condition, IssueFilter, IssuePage, Order, Sort};
#[cfg(test)]
pub(crate) use list::{MAX_ROWS_COUNTED_AHEAD, MAX_UNCOUNTED_ROWS};
#[cfg(test)]
pub(crate) use listed_texts::{MAX_LISTED_TEXT_BYTES, MAX_PAGE_TEXT_BYTES};
pub(crate) use purge::Deleted;
pub(crate) use review_comments::{FoundReviewComment, ReviewCommentFilter};
pub(crate) use search::{FoundIssue, SearchFilter, WINDOW_ROWS};
pub(crate) use tallies::{COMMENT_CLASS, List, TallyChanges};
pub(crate) use texts::MentionSource;
pub(crate) use timeline::TimelineEntry;
pub(crate) use timeline_retention::AgeCursor;
use timeline_retention::GrownTimelines;

/// The tables of issues and everything that belongs to them.
#[derive(Clone, Debug)]
pub(crate) struct IssueTable {
    db: Db,
    grown: GrownTimelines,
}

impl IssueTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, grown: GrownTimelines::default() }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Returns a reader outside of transactions.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::Db(&self.db)
    }
}

/// Where to run a query.
pub(crate) enum Reader<'a> {
    /// Outside of transactions.
    Db(&'a Db),
    /// In a transaction, where it sees the transaction's own writes.
    Tx(&'a mut Tx),
}

impl Reader<'_> {
    async fn all<T: Row>(self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        match self {
            Self::Db(db) => db.all(sql, args).await,
            Self::Tx(tx) => tx.all(sql, args).await,
        }
    }

    async fn optional<T: Row>(self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        match self {
            Self::Db(db) => db.optional(sql, args).await,
            Self::Tx(tx) => tx.optional(sql, args).await,
        }
    }
}
