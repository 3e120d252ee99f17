use ferrite_kit::Secret;
use ferrite_kit::db::Db;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Runs a case on a new SQLite file and on a new PostgreSQL database.
pub(crate) async fn on_both<F, Fut>(case: F)
where
    F: Fn(Secret) -> Fut,
    Fut: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    case(Secret::new(format!("sqlite://{}", folder.path().join("test.db").display()))).await;

    let Some(server) = postgres_server() else {
        eprintln!("not run on PostgreSQL: FERRITE_TEST_POSTGRES_URL is not set");
        return;
    };
    let name = format!("ferrite_test_{}", uuid::Uuid::new_v4().simple());
    administer(&server, format!("CREATE DATABASE {name}")).await;
    case(Secret::new(with_database(&server, &name))).await;
    administer(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

/// As [`on_both`], with the service's schema in place.
pub(crate) async fn on_both_stores<F, Fut>(case: F)
where
    F: Fn(Db) -> Fut,
    Fut: Future<Output = ()>,
{
    on_both(|url| {
        let case = &case;
        async move {
            let db = Db::open(&url, 4).await.unwrap();
            crate::migrations().run(&db).await.unwrap();
            crate::migrations().check(&db).await.unwrap();
            case(db.clone()).await;
            db.close().await;
        }
    })
    .await;
}

#[expect(clippy::disallowed_methods, reason = "tests are told by variables where the server is")]
fn postgres_server() -> Option<String> {
    let server = std::env::var("FERRITE_TEST_POSTGRES_URL").ok().filter(|url| !url.is_empty());
    assert!(server.is_some() || std::env::var("CI").is_err(), "FERRITE_TEST_POSTGRES_URL must be set in CI");
    server
}

async fn administer(server: &str, sql: String) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

fn with_database(server: &str, name: &str) -> String {
    let (base, query) = server.split_once('?').map_or((server, None), |(base, query)| (base, Some(query)));
    let (scheme, rest) = base.split_once("://").unwrap();
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{name}{query}")
}
