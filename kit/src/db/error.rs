//! The error of database operations, alike for PostgreSQL and SQLite.

use sqlx::error::ErrorKind;

/// The kind of a violated constraint. SQLite does not report the name of the constraint, so it is not part of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A unique value exists already.
    Unique,
    /// A referenced row does not exist, or a row is still referenced.
    ForeignKey,
    /// A `CHECK` or `NOT NULL` constraint.
    Check,
}

/// The error of a database operation.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The URL is malformed or has an unsupported scheme. It is not part of the error because it may contain a password.
    #[error("database URL must be `postgres://…` or `sqlite://PATH`")]
    Url,
    /// A statement violated a constraint.
    #[error("database constraint violated ({0:?})")]
    Violation(Violation, #[source] sqlx::Error),
    /// A migration failed, or the schema is older or newer than the program.
    #[error("database schema: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The lock file of the database cannot be used.
    #[error("database folder")]
    Io(#[from] std::io::Error),
    /// Any other failure of the database or its connection.
    #[error("database failure")]
    Failed(#[source] sqlx::Error),
}

impl DbError {
    /// Returns whether a unique value exists already.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        matches!(self, Self::Violation(Violation::Unique, _))
    }

    /// Returns whether a referenced row does not exist, or a row is still referenced.
    #[must_use]
    pub fn is_foreign_key(&self) -> bool {
        matches!(self, Self::Violation(Violation::ForeignKey, _))
    }

    /// Returns whether the disk of the database is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (Self::Violation(_, error) | Self::Failed(error)) = self else { return false };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // SQLITE_FULL (13) and SQLITE_IOERR_WRITE (778) of SQLite, disk_full (53100) of PostgreSQL.
        code.is_some_and(|code| matches!(code.as_ref(), "13" | "778" | "53100"))
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
