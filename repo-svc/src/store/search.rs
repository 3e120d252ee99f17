//! Searches for a substring, with an index if there is one. Also the statistics used to choose how
//! to search: roughly how many repositories there are, and the texts of the first ones.
//!
//! Statistics are up to [`LIFETIME`] old and include private repositories, so they must never
//! affect what a search finds.

use std::sync::Arc;
use std::time::Duration;

use ferrite_db::{Db, DbError, Query};
use moka::sync::Cache;

use crate::model::SearchText;

/// How many of the first repositories to sample.
pub(super) const SAMPLED_ROWS: i64 = 500;
/// Reads the texts; an order and a limit follow. Cuts long descriptions, so that the texts of an
/// order take less than a megabyte.
pub(super) const SAMPLED_TEXTS: &str = "SELECT r.name_key, SUBSTR(r.description_key, 1, 200) FROM repositories r";
const HIGHEST_ID: &str = "SELECT COALESCE(MAX(id), 0) FROM repositories";
const LIFETIME: Duration = Duration::from_secs(60);
/// Six columns, two directions each.
const MAX_ORDERS: u64 = 12;

/// SQL filters for a substring in two columns of a table. Arguments go between the strings.
#[derive(Debug)]
pub(super) struct SearchColumns {
    /// PostgreSQL: `LIKE` patterns, which use its GIN indexes. With `ESCAPE`, a statement planned
    /// once would rewrite the pattern for each row.
    pub(super) like: [&'static str; 3],
    /// SQLite: a query of the FTS table; a closing parenthesis follows.
    pub(super) indexed: &'static str,
    /// Compares the columns directly. On PostgreSQL without `LIKE`, which would read the whole GIN
    /// index for one or two characters.
    pub(super) contains: [[&'static str; 3]; 2],
}

/// Begins a query whose subquery `found` has the matching ids. If an index finds them
/// (`is_gathered`), they are materialized before sorting: the planner estimates pattern matches
/// badly, and for a rare name would scan the whole table in order.
pub(super) fn found(is_gathered: bool) -> &'static str {
    if is_gathered { "WITH found AS MATERIALIZED (" } else { "WITH found AS NOT MATERIALIZED (" }
}

/// Filters for rows that contain the substring. Adds nothing if the search is for everything.
pub(super) fn only_found(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    if text.is_indexed() {
        if db.pick(true, false) {
            either(query, columns.like, &text.candidates_pattern());
        } else {
            query.push(columns.indexed).bind(text.candidates_phrases()).push(")");
        }
    }
    only_containing(query, db, columns, text);
}

/// Filters rows that are read without an index.
pub(super) fn only_with(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    // PostgreSQL compares a pattern faster than it finds a substring.
    let Some(part) = text.part.as_deref() else { return };
    let [_, sqlite] = columns.contains;
    if db.pick(true, false) { either(query, columns.like, &text.pattern()) } else { either(query, sqlite, part) }
}

/// Filters rows that an index found.
pub(super) fn only_containing(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    let Some(part) = text.part.as_deref() else { return };
    if !text.is_indexed() || !text.are_candidates_exact() {
        let [postgres, sqlite] = columns.contains;
        either(query, db.pick(postgres, sqlite), part);
    }
}

/// Compares two columns with the same value.
fn either(query: &mut Query, [first, second, end]: [&'static str; 3], value: &str) {
    query.push(first).bind(value).push(second).bind(value).push(end);
}

/// Statistics, refreshed after [`LIFETIME`].
#[derive(Clone, Debug)]
pub(super) struct SearchStatistics {
    highest_id: Cache<(), i64>,
    /// By the statement that reads them.
    texts: Cache<String, Arc<[String]>>,
}

impl SearchStatistics {
    pub(super) fn new() -> Self {
        let highest_id = Cache::builder().max_capacity(1).time_to_live(LIFETIME).build();
        let texts = Cache::builder().max_capacity(MAX_ORDERS).time_to_live(LIFETIME).build();
        Self { highest_id, texts }
    }

    /// Returns the highest id, up to [`LIFETIME`] old, or zero without repositories.
    pub(super) async fn highest_id(&self, db: &Db) -> Result<i64, DbError> {
        if let Some(id) = self.highest_id.get(&()) {
            return Ok(id);
        }
        let (id,): (i64,) = db.one(HIGHEST_ID, &[]).await?;
        self.highest_id.insert((), id);
        Ok(id)
    }

    /// Counts the sampled repositories (up to [`LIFETIME`] old) whose texts contain the substring.
    pub(super) async fn count_sampled(&self, db: &Db, sample: &Query, part: &str) -> Result<i64, DbError> {
        let texts = self.texts(db, sample).await?;
        let count = texts.iter().filter(|text| text.contains(part)).count();
        Ok(i64::try_from(count).unwrap_or(SAMPLED_ROWS))
    }

    async fn texts(&self, db: &Db, sample: &Query) -> Result<Arc<[String]>, DbError> {
        if let Some(texts) = self.texts.get(sample.sql()) {
            return Ok(texts);
        }
        let rows: Vec<(String, String)> = db.all(sample.sql(), sample.args()).await?;
        let texts: Arc<[String]> =
            rows.into_iter().map(|(name, description)| format!("{name}\n{description}")).collect();
        self.texts.insert(sample.sql().to_owned(), Arc::clone(&texts));
        Ok(texts)
    }
}

#[cfg(test)]
mod tests;
