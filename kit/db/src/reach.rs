//! One attempt to reach a database, for the start of a process: the pool repeats failed attempts itself and then tells only of its timeout.

use std::str::FromStr;
use std::time::Duration;

use ferrite_core::Secret;
use futures_util::future::BoxFuture;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, PgConnection};

use super::error::DbError;
use super::handle::Db;

/// Longest time of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of database that a URL names.
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
    /// Checks the form of a URL, without connecting. Returns whether its database is a server, which may come back by itself when it is
    /// out of reach; a file does not.
    ///
    /// # Errors
    /// [`DbError::Url`] when the URL has another scheme or does not parse.
    pub fn is_server(url: &Secret) -> Result<bool, DbError> {
        Ok(matches!(parse(url)?, Kind::Postgres(_)))
    }

    /// Connects to the server of a database once. Does nothing for a file.
    ///
    /// # Errors
    /// When the URL does not parse, or the server refuses the connection or does not respond within 5 seconds.
    pub fn reach(url: &Secret) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let Kind::Postgres(options) = parse(url)? else { return Ok(()) };
            let connection = tokio::time::timeout(ATTEMPT_TIMEOUT, PgConnection::connect_with(&options)).await;
            let connection = connection.map_err(|_| DbError::Unanswered(ATTEMPT_TIMEOUT.as_secs()))??;
            // The server notices a connection that is dropped as well.
            let _ = connection.close().await;
            Ok(())
        })
    }
}
