//! Searching for a part of a text by an index, where there is one for it.

use ferrite_kit::db::{Db, Query};

use crate::model::SearchText;

/// The pieces of SQL that find a part in the two texts of a table, with the part bound between them.
#[derive(Debug)]
pub(super) struct Searched {
    /// By patterns, which the GIN indexes answer.
    pub(super) postgres: [&'static str; 3],
    /// By a phrase, which the FTS table answers; closed by a parenthesis.
    pub(super) sqlite: &'static str,
    /// By looking at every row: no index knows parts of one or two characters. In other words than the indexed search, because a
    /// GIN index asked for such a pattern is read from end to end.
    pub(super) short_postgres: [&'static str; 3],
    /// The same on SQLite.
    pub(super) short_sqlite: [&'static str; 3],
}

/// Begins a query with the ids that are found, as `found`. What an index answers, and is few, is gathered before it is ordered: the
/// planner knows little of how much a pattern finds, and would else walk the whole table in order for a name that is there once.
pub(super) fn found(is_gathered: bool) -> &'static str {
    if is_gathered { "WITH found AS MATERIALIZED (" } else { "WITH found AS NOT MATERIALIZED (" }
}

/// Narrows a query to the rows that hold the part.
pub(super) fn only_found(query: &mut Query, db: &Db, searched: &Searched, text: &SearchText) {
    let Some(part) = text.part.as_deref() else { return };
    let either = |query: &mut Query, [first, second, end]: [&'static str; 3], value: &str| {
        query.push(first).bind(value).push(second).bind(value).push(end);
    };
    if !text.is_indexed() {
        either(query, db.pick(searched.short_postgres, searched.short_sqlite), part);
    } else if db.pick(true, false) {
        either(query, searched.postgres, &text.pattern().unwrap_or_default());
    } else {
        query.push(searched.sqlite).bind(text.phrase().unwrap_or_default()).push(")");
    }
}

#[cfg(test)]
mod tests;
