use std::hash::Hash;

use moka::sync::Cache;

use super::error::DbError;
use super::handle::Db;
use super::wal_index::WalState;

/// Answers of a database, each kept until anything in the database changes, whoever changes it. On PostgreSQL nothing is kept: to
/// ask whether something changed would cost as much as to ask again.
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
    /// Room for so many answers.
    #[must_use]
    pub fn new(answers: u64) -> Self {
        Self(Cache::new(answers))
    }

    /// The answer to the question `key`: the one that is kept, if it still holds, or else what `ask` finds in `db`.
    ///
    /// # Errors
    /// Those of `ask`.
    pub async fn get_or_query<F>(&self, db: &Db, key: K, ask: F) -> Result<V, DbError>
    where
        F: Future<Output = Result<V, DbError>>,
    {
        // Before asking: what is committed meanwhile makes it look older than it is, never newer.
        let state = db.wal_state();
        let Some(state) = state else { return ask.await };
        if let Some((kept, answer)) = self.0.get(&key)
            && kept == state
        {
            return Ok(answer);
        }
        let answer = ask.await?;
        self.0.insert(key, (state, answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::args;
    use crate::testing::{migrations, on_each, setting};

    const SCHEMA: &str = "CREATE TABLE counters (id BIGINT PRIMARY KEY, count BIGINT NOT NULL);
        INSERT INTO counters (id, count) VALUES (1, 0);";
    const STRICT: &str = "CREATE TABLE counters (id INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;
        INSERT INTO counters (id, count) VALUES (1, 0);";
    const COUNT: &str = "SELECT count FROM counters WHERE id = $1";
    const ADD: &str = "UPDATE counters SET count = count + 1 WHERE id = 1";

    async fn count(db: &Db, cache: &QueryCache<i64, i64>) -> i64 {
        let ask = async { db.one::<(i64,)>(COUNT, &args![1_i64]).await.map(|(count,)| count) };
        cache.get_or_query(db, 1, ask).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_holds_until_something_is_committed() {
        on_each(|test| async move {
            migrations(&[SCHEMA], &[STRICT]).await.run(&test.db).await.unwrap();
            let (db, cache) = (test.db.clone(), QueryCache::new(10));
            let other = Db::open(&test.url, 2).await.unwrap();
            assert_eq!(count(&db, &cache).await, 0);
            let before = db.statements();
            assert_eq!(count(&db, &cache).await, 0);
            assert_eq!(db.statements() - before, db.pick(1, 0));
            for writer in [&db, &other] {
                let was = count(&db, &cache).await;
                let mut tx = writer.begin().await.unwrap();
                tx.execute(ADD, &[]).await.unwrap();
                assert_eq!(count(&db, &cache).await, was);
                tx.rollback().await.unwrap();
                assert_eq!(count(&db, &cache).await, was);
                writer.execute(ADD, &[]).await.unwrap();
                assert_eq!(count(&db, &cache).await, was + 1);
            }
            other.close().await;
            db.execute(ADD, &[]).await.unwrap();
            assert_eq!(count(&db, &cache).await, 3);
        })
        .await;
    }

    #[tokio::test]
    async fn an_index_that_was_replaced_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let db = Db::open(&crate::Secret::new(format!("sqlite://{}", path.display())), 1).await.unwrap();
        migrations(&[SCHEMA], &[STRICT]).await.run(&db).await.unwrap();
        assert!(db.wal_state().is_some());
        let (index, aside) = (folder.path().join("a.db-shm"), folder.path().join("aside"));
        std::fs::rename(&index, &aside).unwrap();
        assert!(db.wal_state().is_none());
        std::fs::copy(&aside, &index).unwrap();
        assert!(db.wal_state().is_none());
        std::fs::rename(&aside, &index).unwrap();
        assert!(db.wal_state().is_some());
    }

    #[tokio::test]
    async fn another_process_is_noticed() {
        const MARKER: &str = "FERRITE_TEST_QUERY_CACHE_CHILD";
        if let Some(url) = setting(MARKER) {
            let db = Db::open(&crate::Secret::new(url), 1).await.unwrap();
            db.execute(ADD, &[]).await.unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let url = crate::Secret::new(format!("sqlite://{}/shared.db", folder.path().display()));
        let (db, cache) = (Db::open(&url, 1).await.unwrap(), QueryCache::new(10));
        migrations(&[SCHEMA], &[STRICT]).await.run(&db).await.unwrap();
        for round in 0..3 {
            assert_eq!(count(&db, &cache).await, round);
            let child = tokio::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "db::cache::tests::another_process_is_noticed", "--nocapture"])
                .env(MARKER, url.expose())
                .stdout(Stdio::null())
                .status();
            assert!(child.await.unwrap().success());
        }
        assert_eq!(count(&db, &cache).await, 3);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_sees_less_than_was_committed() {
        on_each(|test| async move {
            migrations(&[SCHEMA], &[STRICT]).await.run(&test.db).await.unwrap();
            let (db, cache, committed) = (test.db.clone(), QueryCache::new(10), Arc::new(AtomicI64::new(0)));
            let mut readers = JoinSet::new();
            for _ in 0..4 {
                let (db, cache, committed) = (db.clone(), cache.clone(), Arc::clone(&committed));
                readers.spawn(async move {
                    loop {
                        let least = committed.load(Ordering::SeqCst);
                        let seen = count(&db, &cache).await;
                        assert!(seen >= least, "{seen} after {least}");
                        if seen == 200 {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                });
            }
            for number in 1..=200 {
                db.execute(ADD, &[]).await.unwrap();
                committed.store(number, Ordering::SeqCst);
            }
            while let Some(ended) = readers.join_next().await {
                ended.unwrap();
            }
        })
        .await;
    }
}
