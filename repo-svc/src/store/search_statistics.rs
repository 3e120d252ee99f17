//! Facts about all repositories by which a search chooses how it is made: roughly how many there are, and the texts of the first ones.
//!
//! They are at most [`LIFETIME`] old, and the texts are those of private repositories, too. So they never decide what a search finds.

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::db::{Db, DbError, Query};
use moka::sync::Cache;

/// Number of the first repositories whose texts are kept.
pub(super) const SAMPLED_ROWS: i64 = 500;
/// Reads the texts; an order and a limit follow. The end of a long description is left out, so that those of an order take less than a
/// megabyte.
pub(super) const SAMPLED_TEXTS: &str = "SELECT r.name_key, SUBSTR(r.description_key, 1, 200) FROM repositories r";
const HIGHEST_ID: &str = "SELECT COALESCE(MAX(id), 0) FROM repositories";
const LIFETIME: Duration = Duration::from_secs(60);
/// Six columns, each in two directions.
const MAX_ORDERS: u64 = 12;

/// The facts, each of which is read again after [`LIFETIME`].
#[derive(Clone, Debug)]
pub(super) struct SearchStatistics {
    highest_id: Cache<(), i64>,
    /// Texts by the statement that reads them.
    texts: Cache<String, Arc<[String]>>,
}

impl SearchStatistics {
    pub(super) fn new() -> Self {
        let highest_id = Cache::builder().max_capacity(1).time_to_live(LIFETIME).build();
        let texts = Cache::builder().max_capacity(MAX_ORDERS).time_to_live(LIFETIME).build();
        Self { highest_id, texts }
    }

    /// Returns the highest id, or zero without repositories, as it was at most [`LIFETIME`] ago.
    pub(super) async fn highest_id(&self, db: &Db) -> Result<i64, DbError> {
        if let Some(id) = self.highest_id.get(&()) {
            return Ok(id);
        }
        let (id,): (i64,) = db.one(HIGHEST_ID, &[]).await?;
        self.highest_id.insert((), id);
        Ok(id)
    }

    /// Returns how many repositories have the part among those whose texts `sample` reads, as they were at most [`LIFETIME`] ago.
    pub(super) async fn count_sampled(&self, db: &Db, sample: &Query, part: &str) -> Result<i64, DbError> {
        let texts = self.texts(db, sample).await?;
        let count = texts.iter().filter(|text| text.contains(part)).count();
        Ok(i64::try_from(count).unwrap_or(SAMPLED_ROWS))
    }

    async fn texts(&self, db: &Db, sample: &Query) -> Result<Arc<[String]>, DbError> {
        if let Some(texts) = self.texts.get(sample.sql()) {
            return Ok(texts);
        }
        let rows: Vec<(String, String)> = db.all(sample.sql(), sample.args()).await?;
        let texts: Arc<[String]> =
            rows.into_iter().map(|(name, description)| format!("{name}\n{description}")).collect();
        self.texts.insert(sample.sql().to_owned(), Arc::clone(&texts));
        Ok(texts)
    }
}
