//! The rounds of a bench of one database: on a new SQLite file, and on a new database of a PostgreSQL server.

use ferrite_core::Secret;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a statement that stands in no transaction, on a database of PostgreSQL by its URL.
pub(crate) async fn administer(server: &str, sql: String) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Runs `round` with the name and the URL of a new SQLite file, unless `no_sqlite` is set, and of a new database on the server `postgres`.
pub(crate) async fn on_each(
    no_sqlite: bool,
    postgres: Option<&str>,
    round: impl AsyncFn(&str, &Secret) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !no_sqlite {
        let folder = tempfile::tempdir()?;
        round("SQLite", &Secret::new(format!("sqlite://{}", folder.path().join("bench.db").display()))).await?;
    }
    if let Some(server) = postgres {
        let name = format!("ferrite_bench_{}", hex::encode(rand::random::<[u8; 8]>()));
        administer(server, format!("CREATE DATABASE {name}")).await?;
        let (before, _) = server.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
        let outcome = round("PostgreSQL", &Secret::new(format!("{before}/{name}"))).await;
        administer(server, format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        outcome?;
    }
    Ok(())
}
