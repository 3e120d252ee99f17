//! A cache of query results on SQLite, valid until the next commit to the database.

use std::hash::Hash;

use moka::sync::Cache;

use super::data_version::DataVersion;
use super::error::DbError;
use super::handle::Db;

/// Results of queries by key. A result is valid until any process commits to the database. Nothing
/// is cached on PostgreSQL, where detecting a commit costs as much as a query.
#[derive(Clone)]
pub struct QueryCache<K, V> {
    name: &'static str,
    results: Cache<K, (DataVersion, V)>,
}

impl<K, V> std::fmt::Debug for QueryCache<K, V> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("QueryCache").finish_non_exhaustive()
    }
}

impl<K, V> QueryCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns a cache of at most `max_entries` results. `name` is its label in the metrics.
    #[must_use]
    pub fn new(name: &'static str, max_entries: u64) -> Self {
        Self { name, results: Cache::new(max_entries) }
    }

    /// Returns the cached result of `key` if it is still valid. Otherwise runs `query`, which must
    /// read from `db`, and caches its result. `db` must be the same handle each time, or a clone of
    /// it.
    ///
    /// # Errors
    /// The error of `query`.
    pub async fn get_or_query<F>(&self, db: &Db, key: K, query: F) -> Result<V, DbError>
    where
        F: Future<Output = Result<V, DbError>>,
    {
        // Read before the query: a commit in between makes the result look older, never newer.
        let Some(version) = db.data_version() else { return query.await };
        let cached = self.results.get(&key).filter(|(cached_version, _)| *cached_version == version);
        let outcome = if cached.is_some() { "hit" } else { "miss" };
        metrics::counter!("ferrite_query_cache_lookups_total", "cache" => self.name, "result" => outcome).increment(1);
        if let Some((_, result)) = cached {
            return Ok(result);
        }
        let result = query.await?;
        self.results.insert(key, (version, result.clone()));
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
