//! Statements with variable filters.

use super::value::Value;

/// Lists up to this length are padded with their last value.
const MAX_PADDED_LIST: usize = 1024;

/// A statement built from constant parts, with its arguments kept apart. Input never becomes SQL
/// text.
#[derive(Clone, Debug, Default)]
pub struct Query {
    sql: String,
    args: Vec<Value>,
}

impl Query {
    /// Begins a statement with a constant part.
    #[must_use]
    pub fn new(sql: &'static str) -> Self {
        Self { sql: sql.to_owned(), args: Vec::new() }
    }

    /// Appends a constant part.
    pub fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends a placeholder for `value`.
    pub fn bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.args.push(value.into());
        self.sql.push('$');
        self.sql.push_str(&self.args.len().to_string());
        self
    }

    /// Appends `(v1, v2, …)` for the right side of `IN`; an empty list matches nothing. The last
    /// value is repeated up to a power of two, so that lists of all lengths share few texts: each
    /// connection prepares each text once.
    pub fn bind_list<V: Into<Value>>(&mut self, values: impl IntoIterator<Item = V>) -> &mut Self {
        self.sql.push('(');
        let before = self.args.len();
        for value in values {
            if self.args.len() > before {
                self.sql.push_str(", ");
            }
            self.bind(value);
        }
        let count = self.args.len() - before;
        match self.args.last().filter(|_| count > 0).cloned() {
            Some(last) if count <= MAX_PADDED_LIST => {
                for _ in count..count.next_power_of_two() {
                    self.sql.push_str(", ");
                    self.bind(last.clone());
                }
            }
            Some(_) => {}
            None => {
                self.sql.push_str("NULL");
            }
        }
        self.sql.push(')');
        self
    }

    /// Appends the rows of `VALUES`: `(v1, v2, …), (v1, v2, …), …`. Appends nothing if there are
    /// none.
    pub fn bind_rows<const N: usize>(&mut self, rows: impl IntoIterator<Item = [Value; N]>) -> &mut Self {
        for (place, row) in rows.into_iter().enumerate() {
            self.push(if place == 0 { "(" } else { ", (" });
            for (column, value) in row.into_iter().enumerate() {
                self.push(if column == 0 { "" } else { ", " }).bind(value);
            }
            self.push(")");
        }
        self
    }

    /// Puts constant parts around the statement, to make it a subquery.
    pub fn wrap(&mut self, before: &'static str, after: &'static str) -> &mut Self {
        self.sql.insert_str(0, before);
        self.push(after)
    }

    /// Returns the text of the statement.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the arguments of the statement.
    #[must_use]
    pub fn args(&self) -> &[Value] {
        &self.args
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn rows_of_values_stand_in_parentheses() {
        let mut query = Query::new("VALUES ");
        query.bind_rows([args![1, "a"], args![2, "b"]]).push(";").bind_rows::<1>([]);
        assert_eq!((query.sql(), query.args()), ("VALUES ($1, $2), ($3, $4);", &args![1, "a", 2, "b"][..]));
    }
}
