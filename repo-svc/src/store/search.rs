//! Search for a part of a text, by an index if there is one for it; and the statistics by which a search chooses how it is made: roughly how
//! many repositories there are, and the texts of the first ones.
//!
//! Statistics are at most [`LIFETIME`] old, and the texts are those of private repositories, too. So they never decide what a search finds.
//!
//! Not here: the parsing of queries, and SQL of single tables.

use std::sync::Arc;
use std::time::Duration;

use ferrite_db::{Db, DbError, Query};
use moka::sync::Cache;

use crate::model::SearchText;

/// Number of the first repositories whose texts are kept.
pub(super) const SAMPLED_ROWS: i64 = 500;
/// Reads the texts; an order and a limit follow. The end of a long description is left out, so that those of an order take less than a
/// megabyte.
pub(super) const SAMPLED_TEXTS: &str = "SELECT r.name_key, SUBSTR(r.description_key, 1, 200) FROM repositories r";
const HIGHEST_ID: &str = "SELECT COALESCE(MAX(id), 0) FROM repositories";
const LIFETIME: Duration = Duration::from_secs(60);
/// Six columns, each in two directions.
const MAX_ORDERS: u64 = 12;

/// SQL filters that find a part in two text columns of a table. Arguments are bound between the strings.
#[derive(Debug)]
pub(super) struct SearchColumns {
    /// PostgreSQL: `LIKE` patterns, for which it has GIN indexes. With `ESCAPE`, a statement that is planned once would rewrite the pattern
    /// for each row.
    pub(super) like: [&'static str; 3],
    /// SQLite: a query of the FTS table; a closing parenthesis follows.
    pub(super) indexed: &'static str,
    /// A look into the columns: on PostgreSQL not written as `LIKE`, which for one or two characters would read the whole GIN index.
    pub(super) contains: [[&'static str; 3]; 2],
}

/// Begins a query whose subquery `found` has the matching ids. If an index finds them (`is_gathered`), they are materialized before
/// they are ordered: the planner estimates matches of a pattern badly, and would else scan the whole table in order for a rare
/// name.
pub(super) fn found(is_gathered: bool) -> &'static str {
    if is_gathered { "WITH found AS MATERIALIZED (" } else { "WITH found AS NOT MATERIALIZED (" }
}

/// Adds a filter: rows that contain the part. Adds nothing if the search is for everything.
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

/// Adds a filter of rows that are read without an index: those that contain the part.
pub(super) fn only_with(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    // PostgreSQL compares a pattern faster than it looks for a part.
    let Some(part) = text.part.as_deref() else { return };
    let [_, sqlite] = columns.contains;
    if db.pick(true, false) { either(query, columns.like, &text.pattern()) } else { either(query, sqlite, part) }
}

/// Adds a filter to rows that an index found: those that contain the part.
pub(super) fn only_containing(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    let Some(part) = text.part.as_deref() else { return };
    if !text.is_indexed() || !text.are_candidates_exact() {
        let [postgres, sqlite] = columns.contains;
        either(query, db.pick(postgres, sqlite), part);
    }
}

/// Adds a filter of two columns, which compares both with the same value.
fn either(query: &mut Query, [first, second, end]: [&'static str; 3], value: &str) {
    query.push(first).bind(value).push(second).bind(value).push(end);
}

/// The statistics, each of which is read again after [`LIFETIME`].
#[derive(Clone, Debug)]
pub(super) struct SearchStatistics {
    highest_id: Cache<(), i64>,
    /// Texts by the statement that reads them.
    texts: Cache<String, Arc<[String]>>,
}

impl SearchStatistics {
    pub(super) fn new() -> Self {
        let highest_id = Cache::builder().max_capacity(1).time_to_live(LIFETIME).build();
        let texts = Cache::builder().max_capacity(MAX_ORDERS).time_to_live(LIFETIME).build();
        Self { highest_id, texts }
    }

    /// Returns the highest id, or zero without repositories, as it was at most [`LIFETIME`] ago.
    pub(super) async fn highest_id(&self, db: &Db) -> Result<i64, DbError> {
        if let Some(id) = self.highest_id.get(&()) {
            return Ok(id);
        }
        let (id,): (i64,) = db.one(HIGHEST_ID, &[]).await?;
        self.highest_id.insert((), id);
        Ok(id)
    }

    /// Returns how many repositories have the part among those whose texts `sample` reads, as they were at most [`LIFETIME`] ago.
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
