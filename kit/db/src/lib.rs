//! One handle over PostgreSQL and SQLite, with one body of SQL for both.
//!
//! SQL is a `const &str` with `$1` placeholders and portable columns only (`BIGINT`, `TEXT`,
//! `BOOLEAN`, bytes). Rows are decoded with `#[derive(sqlx_macros::FromRow)]`. Where the dialects
//! differ, [`Db::pick`] chooses between two constants.
//!
//! Functions that run a statement return a boxed future, because every crate that polls an `async
//! fn` compiles its body again, and with it the drivers of both databases.

#![warn(missing_docs, clippy::missing_errors_doc)]

mod cache;
mod checkpoint;
mod config;
mod connections;
mod data_version;
mod error;
mod full_text;
mod handle;
pub mod idempotency;
mod lock;
mod measure;
mod migrate;
mod query;
mod reach;
mod run;
mod script;
mod sqlite_connections;
mod startup;
mod statement;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
pub mod testing;
mod vacuum;
mod value;

#[cfg(test)]
mod tests;

pub use cache::QueryCache;
pub use config::DatabaseArgs;
pub use error::{DbError, Violation};
pub use handle::{Db, Row, Tx};
pub use migrate::Migrations;
pub use query::Query;
pub use startup::watch_database;
pub use value::Value;

/// Builds the arguments of a statement, in the order of their placeholders.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        [$($crate::Value::from($value)),*]
    };
}
