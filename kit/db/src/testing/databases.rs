//! Creates a new database for each test, on SQLite and PostgreSQL.
//!
//! PostgreSQL databases are not dropped, because that costs a checkpoint: `tests/servers.sh`
//! removes the whole server after the run. A schema is migrated once, on a template database that
//! the tests of all processes copy.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use ferrite_core::Secret;
use ferrite_core::testing::setting;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::task::{JoinError, JoinSet};

use crate::{Db, Migrations};

/// An empty database of one test.
#[derive(Clone, Debug)]
pub struct TestDb {
    /// The database, open.
    pub db: Db,
    /// Its URL, for another handle.
    pub url: Secret,
}

/// The database of a test. A SQLite file is removed when this is dropped.
enum TestDatabase {
    Sqlite(TempDir),
    Postgres(String),
}

impl TestDatabase {
    /// Returns an empty database on each kind of server of the run.
    async fn each() -> Vec<Self> {
        let mut databases = vec![Self::Sqlite(tempfile::tempdir().unwrap())];
        if let Some(server) = postgres() {
            let mut connection = PgConnection::connect(&server).await.unwrap();
            databases.push(Self::postgres(&mut connection, &server, "template1").await);
            connection.close().await.unwrap();
        }
        databases
    }

    /// Returns a migrated database on each kind of server of the run.
    async fn each_with(schema: &Migrations) -> Vec<Self> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(file(&folder), sqlite_template(schema).await.as_slice()).unwrap();
        let mut databases = vec![Self::Sqlite(folder)];
        if let Some(server) = postgres() {
            let mut connection = PgConnection::connect(&server).await.unwrap();
            let template = postgres_template(&mut connection, &server, schema).await;
            databases.push(Self::postgres(&mut connection, &server, &template).await);
            connection.close().await.unwrap();
        }
        databases
    }

    async fn postgres(connection: &mut PgConnection, server: &str, template: &str) -> Self {
        let name = format!("ferrite_test_{}", uuid::Uuid::new_v4().simple());
        execute(connection, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Self::Postgres(with_database(server, &name))
    }

    fn url(&self) -> Secret {
        Secret::new(match self {
            Self::Sqlite(folder) => format!("sqlite://{}", file(folder)),
            Self::Postgres(url) => url.clone(),
        })
    }
}

/// Returns the path of the SQLite file in a test's folder.
fn file(folder: &TempDir) -> String {
    folder.path().join("test.db").display().to_string()
}

/// Returns the content of a migrated SQLite file, made once per process.
async fn sqlite_template(schema: &Migrations) -> Arc<Vec<u8>> {
    static TEMPLATES: LazyLock<Mutex<HashMap<u64, Arc<Vec<u8>>>>> = LazyLock::new(Mutex::default);
    let key = fingerprint(&schema.sqlite);
    if let Some(template) = TEMPLATES.lock().unwrap().get(&key) {
        return Arc::clone(template);
    }
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(&Secret::new(format!("sqlite://{}", file(&folder))), 1).await.unwrap();
    schema.run(&db).await.unwrap();
    // The last connection to close moves the write-ahead log into the file.
    db.close().await;
    assert!(!Path::new(&format!("{}-wal", file(&folder))).exists(), "a part of the template is in its log");
    let template = Arc::new(std::fs::read(file(&folder)).unwrap());
    TEMPLATES.lock().unwrap().insert(key, Arc::clone(&template));
    template
}

/// Returns the name of a migrated PostgreSQL database without connections. The first caller creates
/// it; callers of other processes wait.
async fn postgres_template(connection: &mut PgConnection, server: &str, schema: &Migrations) -> String {
    let key = fingerprint(&schema.postgres);
    let (template, draft) = (format!("ferrite_template_{key:016x}"), format!("ferrite_draft_{key:016x}"));
    if exists(connection, &template).await {
        return template;
    }
    execute(connection, format!("SELECT pg_advisory_lock({})", key.cast_signed())).await;
    if !exists(connection, &template).await {
        // A process that was killed here leaves a draft behind.
        execute(connection, format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await;
        execute(connection, format!("CREATE DATABASE {draft}")).await;
        let db = Db::open(&Secret::new(with_database(server, &draft)), 2).await.unwrap();
        schema.run(&db).await.unwrap();
        db.close().await;
        until_unused(connection, &draft).await;
        execute(connection, format!("ALTER DATABASE {draft} RENAME TO {template}")).await;
    }
    execute(connection, format!("SELECT pg_advisory_unlock({})", key.cast_signed())).await;
    template
}

/// Waits until the server has ended all sessions of a database. Closing a connection does not wait
/// for that.
async fn until_unused(connection: &mut PgConnection, database: &str) {
    let query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1";
    while sqlx::query_scalar::<_, i64>(query).bind(database).fetch_one(&mut *connection).await.unwrap() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn exists(connection: &mut PgConnection, database: &str) -> bool {
    let query = "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)";
    sqlx::query_scalar(query).bind(database).fetch_one(connection).await.unwrap()
}

fn fingerprint(migrator: &Migrator) -> u64 {
    let mut hasher = DefaultHasher::new();
    for migration in migrator.iter() {
        (migration.version, &migration.checksum).hash(&mut hasher);
    }
    hasher.finish()
}

/// Runs `test` with the URL of a new SQLite file, and of a new PostgreSQL database if
/// `FERRITE_TEST_POSTGRES_URL` is set. CI must set it.
pub async fn on_each_url<F, T>(test: F)
where
    F: Fn(Secret) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for database in TestDatabase::each().await {
        in_own_task(test(database.url())).await.unwrap();
    }
}

/// Like [`on_each_url`], with the database open.
pub async fn on_each<F, T>(test: F)
where
    F: Fn(TestDb) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for database in TestDatabase::each().await {
        let url = database.url();
        let db = Db::open(&url, 20).await.unwrap();
        let outcome = in_own_task(test(TestDb { db: db.clone(), url })).await;
        db.close().await;
        outcome.unwrap();
    }
}

/// Like [`on_each_url`], with the database open and migrated.
pub async fn on_each_schema<F, T>(schema: &Migrations, test: F)
where
    F: Fn(Db) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for database in TestDatabase::each_with(schema).await {
        let db = Db::open(&database.url(), 8).await.unwrap();
        schema.check(&db).await.unwrap();
        let outcome = in_own_task(test(db.clone())).await;
        db.close().await;
        outcome.unwrap();
    }
}

/// Runs `test` to its end or panic, so that the caller can close the database.
async fn in_own_task(test: impl Future<Output = ()> + Send + 'static) -> Result<(), JoinError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(test);
    tasks.join_next().await.expect("there is one")
}

fn postgres() -> Option<String> {
    let url = setting("FERRITE_TEST_POSTGRES_URL");
    if url.is_none() {
        assert!(setting("CI").is_none_or(|ci| ci != "true"), "FERRITE_TEST_POSTGRES_URL must be set in CI");
        eprintln!("FERRITE_TEST_POSTGRES_URL is not set: PostgreSQL is not tested");
    }
    url
}

async fn execute(connection: &mut PgConnection, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

/// Replaces the database (the path) in a URL.
fn with_database(server: &str, name: &str) -> String {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(address, options)| (address, Some(options)));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    options.map_or_else(|| format!("{authority}/{name}"), |options| format!("{authority}/{name}?{options}"))
}
