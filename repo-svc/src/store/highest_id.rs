//! The highest id of a repository, which tells roughly how many there are.

use std::time::Duration;

use ferrite_kit::db::{Db, DbError};
use moka::sync::Cache;

const HIGHEST_ID: &str = "SELECT COALESCE(MAX(id), 0) FROM repositories";
const LIFETIME: Duration = Duration::from_secs(60);

/// The highest id, which is read again after [`LIFETIME`].
#[derive(Clone, Debug)]
pub(super) struct HighestId(Cache<(), i64>);

impl HighestId {
    pub(super) fn new() -> Self {
        Self(Cache::builder().max_capacity(1).time_to_live(LIFETIME).build())
    }

    /// Returns the highest id, or zero without repositories, as it was at most [`LIFETIME`] ago.
    pub(super) async fn read(&self, db: &Db) -> Result<i64, DbError> {
        if let Some(id) = self.0.get(&()) {
            return Ok(id);
        }
        let (id,): (i64,) = db.one(HIGHEST_ID, &[]).await?;
        self.0.insert((), id);
        Ok(id)
    }
}
