//! Test support: databases of each kind.
//!
//! Compiled for tests only: with the feature `testing` for those of other crates.

mod databases;
mod tables;

pub use databases::{TestDb, on_each, on_each_schema, on_each_url};
pub use tables::{migrations, service_tables};
