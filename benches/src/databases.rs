//! The databases of one installation: files of `ferrite up`, or databases on a PostgreSQL server.

use std::path::Path;

use ferrite_core::Secret;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Failure;

/// The processes that have a database.
pub const ROLES_WITH_DATABASE: [&str; 4] = ["repo-svc", "issue-svc", "hook-svc", "git-svc"];

/// The databases of one installation.
pub enum Databases {
    /// In the data folder.
    Sqlite {
        /// That folder.
        folder: String,
    },
    /// On a server, under names that begin with `prefix`.
    Postgres {
        /// The URL of the server.
        server: String,
        /// The first part of the names.
        prefix: String,
    },
}

/// Runs a statement that stands in no transaction, on a database of PostgreSQL by its URL.
///
/// # Errors
/// If the server refuses it.
pub async fn administer(server: &str, sql: String) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Removes dead rows of a database and gathers statistics, which PostgreSQL does by itself within minutes. The services never do so on
/// SQLite.
///
/// # Errors
/// If the server refuses it.
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

/// The URL of a database on a server, by that of another one.
pub(crate) fn url_of(server: &str, database: &str) -> Result<Secret, Failure> {
    let (before, _) = server.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
    Ok(Secret::new(format!("{before}/{database}")))
}

impl Databases {
    /// The files that `ferrite up` makes in its data folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self::Sqlite { folder: folder.display().to_string() }
    }

    /// Makes empty databases on a server.
    ///
    /// # Errors
    /// If the server does not make them.
    pub async fn on_server(server: &str) -> Result<Self, Failure> {
        let prefix = new_name();
        let databases = Self::Postgres { server: server.to_owned(), prefix };
        for name in databases.names() {
            administer(server, format!("CREATE DATABASE {name}")).await?;
        }
        Ok(databases)
    }

    /// Drops the databases of a server. Files go with their folder.
    ///
    /// # Errors
    /// If the server does not drop them.
    pub async fn drop_all(&self) -> Result<(), Failure> {
        if let Self::Postgres { server, .. } = self {
            for name in self.names() {
                administer(server, format!("DROP DATABASE {name} WITH (FORCE)")).await?;
            }
        }
        Ok(())
    }

    /// True if they are on a PostgreSQL server.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// The URL of the database of a role.
    ///
    /// # Errors
    /// If the URL of the server names no database.
    pub fn url(&self, role: &str) -> Result<Secret, Failure> {
        let short = role.trim_end_matches("-svc");
        match self {
            Self::Sqlite { folder } => Ok(Secret::new(format!("sqlite://{folder}/{short}.db"))),
            Self::Postgres { server, prefix } => url_of(server, &format!("{prefix}_{short}")),
        }
    }

    /// Returns the process ids of the connections to these databases; none for files.
    ///
    /// # Errors
    /// If the server cannot be asked.
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
