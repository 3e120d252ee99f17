//! The connection that a query is run on.

use ferrite_db::{Db, DbError, Row, Tx, Value};

/// The database that a query is run on: by itself, or in a transaction.
pub(crate) enum Reader<'a> {
    /// Outside of transactions.
    Db(&'a Db),
    /// In a transaction, whose own writes it sees.
    Tx(&'a mut Tx),
}

impl Reader<'_> {
    pub(super) async fn all<T: Row>(self, sql: &str, args: &[Value]) -> Result<Vec<T>, DbError> {
        match self {
            Self::Db(db) => db.all(sql, args).await,
            Self::Tx(tx) => tx.all(sql, args).await,
        }
    }

    pub(super) async fn optional<T: Row>(self, sql: &str, args: &[Value]) -> Result<Option<T>, DbError> {
        match self {
            Self::Db(db) => db.optional(sql, args).await,
            Self::Tx(tx) => tx.optional(sql, args).await,
        }
    }
}
