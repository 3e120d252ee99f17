//! Real databases and servers for the tests of this crate.

mod site;

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::migrate::Migrator;
use tokio::task::JoinSet;

use crate::Secret;
use crate::db::{Db, Migrations};

pub(crate) use site::{Site, eventually};

/// An empty database of one test.
#[derive(Clone, Debug)]
pub(crate) struct TestDb {
    pub(crate) db: Db,
    pub(crate) url: Secret,
}

/// Runs `test` on SQLite, and on PostgreSQL when `FERRITE_TEST_POSTGRES_URL` names a server; in CI it must.
pub(crate) async fn on_each<F, T>(test: F)
where
    F: Fn(TestDb) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/test.db", folder.path().display()));
    let db = Db::open(&url, 1).await.unwrap();
    contained(test(TestDb { db, url })).await.unwrap();

    let Some(server) = postgres() else { return };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("ferrite_kit_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let admin = sqlx::PgPool::connect(&server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&admin).await.unwrap();
    let url = Secret::new(with_database(&server, &name));
    let db = Db::open(&url, 20).await.unwrap();
    let outcome = contained(test(TestDb { db: db.clone(), url })).await;
    db.close().await;
    sqlx::query(sqlx::AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&admin).await.unwrap();
    outcome.unwrap();
}

/// Runs `test` to its end or its panic, so that the caller can clean up.
async fn contained(test: impl Future<Output = ()> + Send + 'static) -> Result<(), tokio::task::JoinError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(test);
    tasks.join_next().await.expect("there is one")
}

/// The setting of the test run called `name`.
#[expect(clippy::disallowed_methods, reason = "settings of tests are no settings of a service")]
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The server that `FERRITE_TEST_POSTGRES_URL` names.
fn postgres() -> Option<String> {
    let url = setting("FERRITE_TEST_POSTGRES_URL");
    if url.is_none() {
        assert!(setting("CI").is_none_or(|ci| ci != "true"), "FERRITE_TEST_POSTGRES_URL must be set in CI");
        eprintln!("FERRITE_TEST_POSTGRES_URL is not set: PostgreSQL is not tested");
    }
    url
}

/// `server` with its database (the path) replaced.
fn with_database(server: &str, name: &str) -> String {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(address, options)| (address, Some(options)));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    options.map_or_else(|| format!("{authority}/{name}"), |options| format!("{authority}/{name}?{options}"))
}

/// Migrations 1, 2, … of these statements, in each dialect.
pub(crate) async fn migrations(postgres: &[&'static str], sqlite: &[&'static str]) -> Migrations {
    Migrations { postgres: migrator(postgres).await, sqlite: migrator(sqlite).await }
}

async fn migrator(statements: &[&'static str]) -> Migrator {
    let folder = tempfile::tempdir().unwrap();
    for (number, sql) in (1..).zip(statements) {
        std::fs::write(folder.path().join(format!("{number:04}_step.sql")), sql).unwrap();
    }
    Migrator::new(folder.path() as &Path).await.unwrap()
}

const TABLES_POSTGRES: &str = "
CREATE TABLE outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id TEXT NOT NULL, subscriber TEXT NOT NULL,
    repository_id BIGINT NOT NULL, kind TEXT NOT NULL, payload BYTEA NOT NULL, created_us BIGINT NOT NULL,
    next_attempt_us BIGINT NOT NULL, claimed_until_us BIGINT NOT NULL, epoch BIGINT NOT NULL, attempts BIGINT NOT NULL,
    delivered_us BIGINT, UNIQUE (event_id, subscriber)
);
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE TABLE inbox (
    event_id TEXT PRIMARY KEY, repository_id BIGINT NOT NULL, kind TEXT NOT NULL, received_us BIGINT NOT NULL
);
CREATE TABLE idempotency (
    key_hash TEXT PRIMARY KEY, request_hash TEXT NOT NULL, answer BYTEA NOT NULL, created_us BIGINT NOT NULL
);
CREATE TABLE effects (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, repository_id BIGINT NOT NULL, number BIGINT NOT NULL
);";

const TABLES_SQLITE: &str = "
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, subscriber TEXT NOT NULL,
    repository_id INTEGER NOT NULL, kind TEXT NOT NULL, payload BLOB NOT NULL, created_us INTEGER NOT NULL,
    next_attempt_us INTEGER NOT NULL, claimed_until_us INTEGER NOT NULL, epoch INTEGER NOT NULL, attempts INTEGER NOT NULL,
    delivered_us INTEGER, UNIQUE (event_id, subscriber)
) STRICT;
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE TABLE inbox (
    event_id TEXT PRIMARY KEY, repository_id INTEGER NOT NULL, kind TEXT NOT NULL, received_us INTEGER NOT NULL
) STRICT;
CREATE TABLE idempotency (
    key_hash TEXT PRIMARY KEY, request_hash TEXT NOT NULL, answer BLOB NOT NULL, created_us INTEGER NOT NULL
) STRICT;
CREATE TABLE effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, repository_id INTEGER NOT NULL, number INTEGER NOT NULL
) STRICT;";

/// The tables that every service has (`docs/events.md`), and one for what a subscriber does.
pub(crate) async fn service_tables(db: &Db) {
    migrations(&[TABLES_POSTGRES], &[TABLES_SQLITE]).await.run(db).await.unwrap();
}
