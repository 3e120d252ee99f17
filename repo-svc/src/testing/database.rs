use ferrite_kit::Secret;
use ferrite_kit::db::Db;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::store::migrations;

/// Runs a test on SQLite, and on PostgreSQL where `FERRITE_TEST_POSTGRES_URL` names a server whose user may make databases.
pub(crate) async fn on_both(test: impl AsyncFn(Db)) {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&format!("sqlite://{}", folder.path().join("repo.db").display())).await;
    test(db.clone()).await;
    db.close().await;
    let Some(server) = variable("FERRITE_TEST_POSTGRES_URL") else {
        assert!(variable("CI").is_none(), "FERRITE_TEST_POSTGRES_URL must be set in CI");
        eprintln!("skipping PostgreSQL: FERRITE_TEST_POSTGRES_URL is not set");
        return;
    };
    let name = format!("repo_test_{}", hex::encode(rand::random::<[u8; 8]>()));
    execute(&server, &format!("CREATE DATABASE {name}")).await;
    let db = open(&with_database(&server, &name)).await;
    test(db.clone()).await;
    db.close().await;
    execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

async fn open(url: &str) -> Db {
    let db = Db::open(&Secret::new(url), 8).await.unwrap();
    migrations().run(&db).await.unwrap();
    db
}

async fn execute(server: &str, sql: &str) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

fn with_database(server: &str, name: &str) -> String {
    let (base, query) =
        server.split_once('?').map_or((server, String::new()), |(base, query)| (base, format!("?{query}")));
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    format!("{}/{name}{query}", &base[..end])
}

#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where PostgreSQL is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
