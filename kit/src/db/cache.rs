//! A cache of query results on SQLite that is valid until the next commit to the database.
//!
//! Not here: expiry by time, and caching on PostgreSQL.

use std::hash::Hash;

use moka::sync::Cache;

use super::error::DbError;
use super::handle::Db;
use super::wal_index::WalState;

/// Results of queries by key. A result is valid until any process commits to the database. On PostgreSQL nothing is cached: detecting a
/// commit there would cost as much as the query.
#[derive(Clone)]
pub struct QueryCache<K, V>(Cache<K, (WalState, V)>);

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
    /// Returns a cache of at most `max_entries` results.
    #[must_use]
    pub fn new(max_entries: u64) -> Self {
        Self(Cache::new(max_entries))
    }

    /// Returns the cached result of `key` if it is still valid; else runs `query`, which must read from `db`, and caches its result.
    ///
    /// # Errors
    /// The error of `query`.
    pub async fn get_or_query<F>(&self, db: &Db, key: K, query: F) -> Result<V, DbError>
    where
        F: Future<Output = Result<V, DbError>>,
    {
        // Read before the query: a commit in between makes the result look older than it is, never newer.
        let state = db.wal_state();
        let Some(state) = state else { return query.await };
        if let Some((cached_state, result)) = self.0.get(&key)
            && cached_state == state
        {
            return Ok(result);
        }
        let result = query.await?;
        self.0.insert(key, (state, result.clone()));
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
