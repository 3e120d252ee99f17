//! Test databases. Other crates get them with the feature `testing`.

mod databases;
mod tables;

pub use databases::{TestDb, on_each, on_each_schema, on_each_url};
pub use tables::{migrations, service_tables};
