//! A single attempt to reach a database, at the start of a process. The pool would retry by itself
//! and then only report its timeout.

use std::str::FromStr;
use std::time::Duration;

use ferrite_core::Secret;
use futures_util::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, PgConnection};

use super::error::DbError;
use super::handle::Db;

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

enum Kind {
    Postgres(Box<PgConnectOptions>),
    Sqlite,
}

fn parse(url: &Secret) -> Result<Kind, DbError> {
    let text = url.expose();
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        let options = PgConnectOptions::from_str(text).map_err(|_| DbError::Url)?;
        return Ok(Kind::Postgres(Box::new(options)));
    }
    let is_sqlite = text.starts_with("sqlite://") && SqliteConnectOptions::from_str(text).is_ok();
    if is_sqlite { Ok(Kind::Sqlite) } else { Err(DbError::Url) }
}

impl Db {
    /// Checks a URL without connecting. Returns whether its database is a server, which may become
    /// reachable again by itself, unlike a file.
    ///
    /// # Errors
    /// [`DbError::Url`] if the URL is malformed or has another scheme.
    pub fn is_server(url: &Secret) -> Result<bool, DbError> {
        Ok(matches!(parse(url)?, Kind::Postgres(_)))
    }

    /// Connects to the database server once. Does nothing for a file.
    ///
    /// # Errors
    /// If the URL is malformed, or the server refuses the connection or does not respond within 5
    /// seconds.
    pub fn reach(url: &Secret) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let Kind::Postgres(options) = parse(url)? else { return Ok(()) };
            let connection = tokio::time::timeout(ATTEMPT_TIMEOUT, PgConnection::connect_with(&options)).await;
            let connection = connection.map_err(|_| DbError::Unanswered(ATTEMPT_TIMEOUT.as_secs()))??;
            // If closing fails, the server still notices the dropped connection.
            let _ = connection.close().await;
            Ok(())
        })
    }
}
