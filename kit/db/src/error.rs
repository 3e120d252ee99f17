//! The error of database operations, the same for PostgreSQL and SQLite.

use std::borrow::Cow;
use std::time::Duration;

use ferrite_core::version::PreconditionFailed;
use ferrite_proto::error::Kind;
use ferrite_rpc::write_limit::WriteRefused;
use sqlx::error::ErrorKind;
use sqlx::migrate::MigrateError;

/// The kind of a violated constraint. SQLite does not report the constraint's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The value of a unique column already exists.
    Unique,
    /// A referenced row does not exist, or a row is still referenced.
    ForeignKey,
    /// A `CHECK` or `NOT NULL` constraint.
    Check,
}

/// The error of a database operation.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The URL is malformed or has an unsupported scheme. The error omits it because it may contain
    /// a password.
    #[error("FERRITE_DATABASE_URL must be `postgres://…` or `sqlite://PATH`")]
    Url,
    /// A statement violated a constraint.
    #[error("database constraint violated ({0:?})")]
    Violation(Violation, #[source] sqlx::Error),
    /// A migration failed, or the schema is older or newer than the program.
    #[error("database schema: {}", schema_text(.0))]
    Migrate(MigrateError),
    /// The lock file of the database is unusable.
    #[error("database folder")]
    Io(#[from] std::io::Error),
    /// The server did not respond within this number of seconds.
    #[error("the database did not respond within {0} s")]
    Unanswered(u64),
    /// The account of the request has reached its hourly write limit.
    #[error(transparent)]
    Refused(#[from] WriteRefused),
    /// The precondition of the request does not hold, or was not checked.
    #[error(transparent)]
    Precondition(#[from] PreconditionFailed),
    /// Any other failure of the database or its connection.
    #[error("database failure")]
    Failed(#[source] sqlx::Error),
}

impl DbError {
    /// Whether a unique value already exists.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        matches!(self, Self::Violation(Violation::Unique, _))
    }

    /// Whether a referenced row does not exist, or a row is still referenced.
    #[must_use]
    pub fn is_foreign_key(&self) -> bool {
        matches!(self, Self::Violation(Violation::ForeignKey, _))
    }

    /// Whether the schema has migrations that this program does not know.
    #[must_use]
    pub fn is_newer_schema(&self) -> bool {
        matches!(self, Self::Migrate(MigrateError::VersionMissing(_)))
    }

    /// Whether the database is unreachable or closed the connection, so that the same call may
    /// succeed later. If the error comes from a commit, the commit may have succeeded: retrying
    /// needs an idempotency key.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        let error = match self {
            Self::Failed(error) => error,
            Self::Unanswered(_) => return true,
            Self::Url
            | Self::Violation(..)
            | Self::Migrate(_)
            | Self::Io(_)
            | Self::Refused(_)
            | Self::Precondition(_) => return false,
        };
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed => true,
            // Classes 08 (connection exception) and 57P (operator intervention),
            // too_many_connections, and idle_in_transaction_session_timeout.
            sqlx::Error::Database(error) => error.code().is_some_and(|code| {
                code.starts_with("08") || code.starts_with("57P") || code == "53300" || code == "25P03"
            }),
            _ => false,
        }
    }

    /// Returns the kind and reason of a service's error that has this cause.
    #[must_use]
    pub fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::Refused(_) => (Kind::RateLimited, "WRITE_LIMIT_REACHED"),
            Self::Precondition(_) => (Kind::Aborted, "PRECONDITION_FAILED"),
            _ if self.is_unavailable() => (Kind::Overloaded, "DATABASE_UNAVAILABLE"),
            _ => (Kind::Internal, "INTERNAL"),
        }
    }

    /// Returns the message of a service's error that has this cause.
    #[must_use]
    pub fn message(&self) -> Cow<'static, str> {
        match self {
            Self::Refused(refused) => refused.to_string().into(),
            Self::Precondition(failed) => failed.to_string().into(),
            _ if self.is_unavailable() => "the database is unavailable, try again later".into(),
            _ => "storage failure".into(),
        }
    }

    /// Returns when the same call may succeed, if known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refused) => Some(refused.retry_after),
            _ => self.is_unavailable().then_some(Duration::from_secs(1)),
        }
    }

    /// Logs that `work` failed. Only a warning while the database is unavailable, because the
    /// readiness probe reports that, too. Logs nothing for a refused write.
    pub fn log(&self, work: &str) {
        let error = self as &dyn std::error::Error;
        if matches!(self, Self::Refused(_) | Self::Precondition(_)) {
            return;
        }
        if self.is_unavailable() {
            tracing::warn!(error, "{work} failed: the database is unavailable");
        } else {
            tracing::error!(error, "{work} failed");
        }
    }

    /// Whether the disk of the database is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (Self::Violation(_, error) | Self::Failed(error)) = self else { return false };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // SQLITE_FULL (13) and SQLITE_IOERR_WRITE (778), and disk_full (53100) of PostgreSQL.
        code.is_some_and(|code| matches!(code.as_ref(), "13" | "778" | "53100"))
    }
}

/// Says what is wrong with a schema and what to do about it.
fn schema_text(error: &MigrateError) -> String {
    match error {
        MigrateError::VersionMissing(version) => {
            format!(
                "newer than this program, which does not know migration {version}: run the newer version, or set FERRITE_ALLOW_NEWER_SCHEMA to undo an upgrade"
            )
        }
        MigrateError::VersionNotPresent(version) => {
            format!("older than this program: migration {version} is missing; start once without FERRITE_NO_MIGRATE")
        }
        MigrateError::VersionMismatch(version) => {
            format!("migration {version} differs from that of this program: the database belongs to another build")
        }
        error => error.to_string(),
    }
}

impl From<MigrateError> for DbError {
    fn from(error: MigrateError) -> Self {
        Self::Migrate(error)
    }
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let violation = match error.as_database_error().map(sqlx::error::DatabaseError::kind) {
            Some(ErrorKind::UniqueViolation) => Some(Violation::Unique),
            Some(ErrorKind::ForeignKeyViolation) => Some(Violation::ForeignKey),
            Some(ErrorKind::CheckViolation | ErrorKind::NotNullViolation) => Some(Violation::Check),
            _ => None,
        };
        match violation {
            Some(violation) => Self::Violation(violation, error),
            None => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::Secret;

    use super::*;
    use crate::Db;

    #[tokio::test]
    async fn a_database_that_cannot_be_reached_is_unavailable_and_no_fault_of_the_service() {
        // Nothing listens on port 1. A free port could be taken by another test.
        let error = Db::open(&Secret::new("postgres://nobody@127.0.0.1:1/none"), 1).await.unwrap_err();
        assert_eq!(error.classify(), (Kind::Overloaded, "DATABASE_UNAVAILABLE"));
        for fault in [DbError::Failed(sqlx::Error::RowNotFound), DbError::Url] {
            assert_eq!(fault.classify(), (Kind::Internal, "INTERNAL"));
        }
    }
}
