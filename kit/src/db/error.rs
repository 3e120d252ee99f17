use sqlx::error::ErrorKind;

/// Which kind of constraint refused a statement. SQLite does not say which constraint it was, so neither do we.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A value that must be unique is there already.
    Unique,
    /// A row that is referred to does not exist, or is still referred to.
    ForeignKey,
    /// A value breaks another rule of its table.
    Check,
}

/// What can go wrong with a database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The URL is not one of ours. It may hold a password, so it is not repeated.
    #[error("database URL must be `postgres://…` or `sqlite://PATH`")]
    Url,
    /// A constraint refused a statement.
    #[error("database constraint violated ({0:?})")]
    Violation(Violation, #[source] sqlx::Error),
    /// The schema could not be brought up to date, or is newer than this program.
    #[error("database schema: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A file beside the database could not be used.
    #[error("database folder")]
    Io(#[from] std::io::Error),
    /// The database failed, or cannot be reached.
    #[error("database failure")]
    Failed(#[source] sqlx::Error),
}

impl DbError {
    /// Whether a value that must be unique was there already.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        matches!(self, Self::Violation(Violation::Unique, _))
    }

    /// Whether a row that is referred to does not exist, or is still referred to.
    #[must_use]
    pub fn is_foreign_key(&self) -> bool {
        matches!(self, Self::Violation(Violation::ForeignKey, _))
    }

    /// Whether the disk of the database has no room left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (Self::Violation(_, error) | Self::Failed(error)) = self else { return false };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // SQLite: SQLITE_FULL, and writes that the system refused; PostgreSQL: disk_full.
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
