use std::future::Future;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::task::{JoinError, JoinSet};

use crate::Secret;
use crate::db::{Db, Migrations};

/// An empty database of one test.
#[derive(Clone, Debug)]
pub struct TestDb {
    /// The database, open.
    pub db: Db,
    /// Where it is, to open it once more.
    pub url: Secret,
}

/// Where a database of a test is, and how it goes away.
enum Place {
    Sqlite(TempDir),
    Postgres { server: String, name: String },
}

impl Place {
    /// A new place on each kind of server there is.
    async fn each() -> Vec<Self> {
        let mut places = vec![Self::Sqlite(tempfile::tempdir().unwrap())];
        if let Some(server) = postgres() {
            let name = format!("ferrite_test_{}", uuid::Uuid::new_v4().simple());
            administer(&server, format!("CREATE DATABASE {name}")).await;
            places.push(Self::Postgres { server, name });
        }
        places
    }

    fn url(&self) -> Secret {
        Secret::new(match self {
            Self::Sqlite(folder) => format!("sqlite://{}/test.db", folder.path().display()),
            Self::Postgres { server, name } => with_database(server, name),
        })
    }

    async fn remove(self) {
        if let Self::Postgres { server, name } = self {
            administer(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

/// Runs `test` with the address of a new SQLite file, and of a new PostgreSQL database when `FERRITE_TEST_POSTGRES_URL` names a
/// server; in CI it must.
pub async fn on_each_url<F, T>(test: F)
where
    F: Fn(Secret) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for place in Place::each().await {
        let outcome = contained(test(place.url())).await;
        place.remove().await;
        outcome.unwrap();
    }
}

/// As [`on_each_url`], with the database open.
pub async fn on_each<F, T>(test: F)
where
    F: Fn(TestDb) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for place in Place::each().await {
        let url = place.url();
        let db = Db::open(&url, 20).await.unwrap();
        let outcome = contained(test(TestDb { db: db.clone(), url })).await;
        db.close().await;
        place.remove().await;
        outcome.unwrap();
    }
}

/// As [`on_each_url`], with the database open and the schema in place.
pub async fn on_each_schema<F, T>(schema: &Migrations, test: F)
where
    F: Fn(Db) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    for place in Place::each().await {
        let db = Db::open(&place.url(), 8).await.unwrap();
        schema.run(&db).await.unwrap();
        schema.check(&db).await.unwrap();
        let outcome = contained(test(db.clone())).await;
        db.close().await;
        place.remove().await;
        outcome.unwrap();
    }
}

/// Runs `test` to its end or its panic, so that the caller can clean up.
async fn contained(test: impl Future<Output = ()> + Send + 'static) -> Result<(), JoinError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(test);
    tasks.join_next().await.expect("there is one")
}

/// The setting of the test run called `name`.
#[expect(clippy::disallowed_methods, reason = "settings of tests are no settings of a service")]
#[must_use]
pub fn setting(name: &str) -> Option<String> {
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

async fn administer(server: &str, sql: String) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// `server` with its database (the path) replaced.
fn with_database(server: &str, name: &str) -> String {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(address, options)| (address, Some(options)));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    options.map_or_else(|| format!("{authority}/{name}"), |options| format!("{authority}/{name}?{options}"))
}
