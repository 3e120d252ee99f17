//! The databases of one installation: files of `ferrite up`, or databases on a PostgreSQL server.

use std::path::Path;

use ferrite_core::Secret;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::Failure;

/// The processes that have a database.
pub(crate) const ROLES_WITH_DATABASE: [&str; 4] = ["repo-svc", "issue-svc", "hook-svc", "git-svc"];

/// The databases of one installation.
pub(crate) enum Databases {
    /// In the data folder.
    Sqlite { folder: String },
    /// On a server, under names that begin with `prefix`.
    Postgres { server: String, prefix: String },
}

/// Runs a statement that stands in no transaction, on a database of PostgreSQL by its URL.
pub(crate) async fn administer(server: &str, sql: String) -> Result<(), Failure> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

impl Databases {
    /// The files that `ferrite up` makes in its data folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self::Sqlite { folder: folder.display().to_string() }
    }

    /// Makes empty databases on a server.
    pub(crate) async fn on_server(server: &str) -> Result<Self, Failure> {
        let prefix = format!("ferrite_bench_{}", hex::encode(rand::random::<[u8; 6]>()));
        let databases = Self::Postgres { server: server.to_owned(), prefix };
        for name in databases.names() {
            administer(server, format!("CREATE DATABASE {name}")).await?;
        }
        Ok(databases)
    }

    /// Drops the databases of a server. Files go with their folder.
    pub(crate) async fn drop_all(&self) -> Result<(), Failure> {
        if let Self::Postgres { server, .. } = self {
            for name in self.names() {
                administer(server, format!("DROP DATABASE {name} WITH (FORCE)")).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// The URL of the database of a role.
    pub(crate) fn url(&self, role: &str) -> Result<Secret, Failure> {
        let short = role.trim_end_matches("-svc");
        match self {
            Self::Sqlite { folder } => Ok(Secret::new(format!("sqlite://{folder}/{short}.db"))),
            Self::Postgres { server, prefix } => {
                let (before, _) = server.rsplit_once('/').ok_or("the URL of PostgreSQL names no database")?;
                Ok(Secret::new(format!("{before}/{prefix}_{short}")))
            }
        }
    }

    /// Returns the process ids of the connections to these databases; none for files.
    pub(crate) async fn server_processes(&self) -> Result<Vec<u32>, Failure> {
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
