//! Search for a part of a text, by an index if there is one for it.
//!
//! Not here: the parsing of queries, and SQL of single tables.

use ferrite_kit::db::{Db, Query};

use crate::model::SearchText;

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

#[cfg(test)]
mod tests;
