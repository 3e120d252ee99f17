//! Reads and changes rows of the services' databases directly.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::cluster::{Cluster, Profile, Role};

impl Cluster {
    /// Queries one column of numbers.
    pub(crate) async fn numbers(&self, role: Role, query: &'static str) -> Vec<i64> {
        let url = self.database(role);
        match self.profile {
            Profile::Embedded => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
            }
            Profile::Production => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
            }
        }
    }

    pub(crate) async fn bytes(&self, role: Role, query: String) -> Vec<Vec<u8>> {
        let (url, query) = (self.database(role), AssertSqlSafe(query));
        match self.profile {
            Profile::Embedded => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
            }
            Profile::Production => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
            }
        }
    }

    /// Runs a statement, for changes that no request can make.
    pub(crate) async fn change(&self, role: Role, statement: String) {
        let (url, statement) = (self.database(role), AssertSqlSafe(statement));
        match self.profile {
            Profile::Embedded => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                sqlx::query(statement).execute(&mut connection).await.unwrap();
            }
            Profile::Production => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query(statement).execute(&mut connection).await.unwrap();
            }
        }
    }

    pub(crate) async fn number(&self, role: Role, query: &'static str) -> i64 {
        self.numbers(role, query).await[0]
    }
}
