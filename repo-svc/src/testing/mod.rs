//! Test fixtures: both databases, and the service on a real socket.

mod fake_peer;
mod harness;

pub(crate) use fake_peer::StoreMode;
pub(crate) use harness::{Harness, PASSWORD, basic, with_token};

use ferrite_db::Db;
use ferrite_db::testing::on_each_schema;

use crate::store::GitStoreTable;

/// Adds the git store `default`, if there is none.
pub(crate) async fn default_store(db: &Db) {
    GitStoreTable::new(db.clone()).add_first(&["default".parse().unwrap()], 1).await.unwrap();
}

/// Runs a test on PostgreSQL and on SQLite, each with the schema.
pub(crate) async fn on_both<T>(test: impl Fn(Db) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    on_each_schema(&crate::store::migrations(), test).await;
}
