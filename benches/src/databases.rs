//! The databases of an installation: files of `ferrite up`, or databases on a PostgreSQL server.

use std::path::Path;

use ferrite_core::Secret;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Failure;

/// The processes with a database.
pub const ROLES_WITH_DATABASE: [&str; 4] = ["repo-svc", "issue-svc", "hook-svc", "git-svc"];

pub enum Databases {
    /// In the data folder.
    Sqlite {
        /// The data folder.
        folder: String,
    },
    /// On a server, with names that begin with `prefix`.
    Postgres {
        /// URL of the server.
        server: String,
        /// Prefix of the names.
        prefix: String,
    },
}

/// Runs a statement outside a transaction, on the PostgreSQL database with this URL.
pub async fn administer(server: &str, sql: String) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Removes dead rows of a database and updates its statistics, which PostgreSQL does by itself
/// within minutes. The services never do this on SQLite.
pub async fn settle(url: &Secret) -> Result<(), Failure> {
    if url.expose().starts_with("postgres") {
        administer(url.expose(), "VACUUM (ANALYZE)".to_owned()).await?;
        administer(url.expose(), "CHECKPOINT".to_owned()).await?;
    }
    Ok(())
}

/// A name that no database has.
pub(crate) fn new_name() -> String {
    format!("ferrite_bench_{}", hex::encode(rand::random::<[u8; 6]>()))
}

/// The URL of another database on the server of `server`.
pub(crate) fn url_of(server: &str, database: &str) -> Result<Secret, Failure> {
    let (before, _) = server.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
    Ok(Secret::new(format!("{before}/{database}")))
}

impl Databases {
    /// The files that `ferrite up` creates in its data folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self::Sqlite { folder: folder.display().to_string() }
    }

    /// Creates empty databases on a server.
    pub async fn on_server(server: &str) -> Result<Self, Failure> {
        let prefix = new_name();
        let databases = Self::Postgres { server: server.to_owned(), prefix };
        for name in databases.names() {
            administer(server, format!("CREATE DATABASE {name}")).await?;
        }
        Ok(databases)
    }

    /// Drops the databases of a server. Files are deleted with their folder.
    pub async fn drop_all(&self) -> Result<(), Failure> {
        if let Self::Postgres { server, .. } = self {
            for name in self.names() {
                administer(server, format!("DROP DATABASE {name} WITH (FORCE)")).await?;
            }
        }
        Ok(())
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Database URL of a role.
    pub fn url(&self, role: &str) -> Result<Secret, Failure> {
        let short = role.trim_end_matches("-svc");
        match self {
            Self::Sqlite { folder } => Ok(Secret::new(format!("sqlite://{folder}/{short}.db"))),
            Self::Postgres { server, prefix } => url_of(server, &format!("{prefix}_{short}")),
        }
    }

    /// Process ids of the server for connections to these databases; none for files.
    pub async fn server_processes(&self) -> Result<Vec<u32>, Failure> {
        let Self::Postgres { server, .. } = self else { return Ok(Vec::new()) };
        let mut connection = PgConnection::connect(server).await?;
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = ANY($1)";
        let ids: Vec<i32> = sqlx::query_scalar(sql).bind(self.names()).fetch_all(&mut connection).await?;
        connection.close().await?;
        Ok(ids.into_iter().filter_map(|id| u32::try_from(id).ok()).collect())
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Sqlite { .. } => Vec::new(),
            Self::Postgres { prefix, .. } => {
                let name = |role: &&str| format!("{prefix}_{}", role.trim_end_matches("-svc"));
                ROLES_WITH_DATABASE.iter().map(name).collect()
            }
        }
    }
}
