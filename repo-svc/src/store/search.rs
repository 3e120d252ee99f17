//! Search for a part of a text, by an index if there is one for it.
//!
//! Not here: the parsing of queries, and SQL of single tables.

use ferrite_kit::db::{Db, Query};

use crate::model::SearchText;

/// SQL filters that find a part in two text columns of a table. Arguments are bound between the strings.
#[derive(Debug)]
pub(super) struct SearchColumns {
    /// PostgreSQL: `LIKE` patterns, which use the GIN indexes.
    pub(super) postgres: [&'static str; 3],
    /// SQLite: a phrase for the FTS table; a closing parenthesis follows.
    pub(super) sqlite: &'static str,
    /// PostgreSQL: a scan of all rows for parts of one or two characters, which no index has. Not written as `LIKE`, because that
    /// would read the whole GIN index.
    pub(super) short_postgres: [&'static str; 3],
    /// SQLite: a scan of all rows for such parts.
    pub(super) short_sqlite: [&'static str; 3],
}

/// Begins a query whose subquery `found` has the matching ids. If an index finds them (`is_gathered`), they are materialized before
/// they are ordered: the planner estimates matches of a pattern badly, and would else scan the whole table in order for a rare
/// name.
pub(super) fn found(is_gathered: bool) -> &'static str {
    if is_gathered { "WITH found AS MATERIALIZED (" } else { "WITH found AS NOT MATERIALIZED (" }
}

/// Adds a filter: rows that contain the part. Adds nothing if the search is for everything.
pub(super) fn only_found(query: &mut Query, db: &Db, columns: &SearchColumns, text: &SearchText) {
    let Some(part) = text.part.as_deref() else { return };
    let either = |query: &mut Query, [first, second, end]: [&'static str; 3], value: &str| {
        query.push(first).bind(value).push(second).bind(value).push(end);
    };
    if !text.is_indexed() {
        either(query, db.pick(columns.short_postgres, columns.short_sqlite), part);
    } else if db.pick(true, false) {
        either(query, columns.postgres, &text.pattern().unwrap_or_default());
    } else {
        query.push(columns.sqlite).bind(text.phrase().unwrap_or_default()).push(")");
    }
}

#[cfg(test)]
mod tests;
