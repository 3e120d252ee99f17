//! SQL helpers: row locks, errors for violated constraints, and levels as stored in columns.

use ferrite_db::{DbError, Tx};
use ferrite_proto::Permission;

use crate::error::RepoError;
use crate::model::level_named;

/// A statement that locks the rows it reads. On SQLite, which has a single writer, it takes no
/// lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locking {
    pub(super) postgres: &'static str,
    /// Without the lock.
    pub(super) plain: &'static str,
}

impl Locking {
    pub(super) fn sql(self, tx: &Tx) -> &'static str {
        tx.pick(self.postgres, self.plain)
    }
}

/// Builds a [`Locking`] from a statement and PostgreSQL's locking clause.
macro_rules! locking {
    ($plain:expr, $clause:literal) => {
        $crate::store::sql::Locking { postgres: concat!($plain, $clause), plain: $plain }
    };
}
pub(super) use locking;

/// Maps a foreign key error (the referenced row was deleted) to `missing`. Keeps other errors.
pub(crate) fn or_missing(missing: impl Into<RepoError>) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_foreign_key() { missing.into() } else { error.into() }
}

/// Maps a unique constraint error to the error of `taken`. Keeps other errors.
pub(super) fn or_taken(taken: impl FnOnce() -> RepoError) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_unique() { taken() } else { error.into() }
}

/// Decodes a collaborator's level, stored as a word. Returns [`Permission::None`] for `None` and
/// unknown words.
pub(super) fn level_from_str(word: Option<&str>) -> Permission {
    word.and_then(level_named).unwrap_or(Permission::None)
}

/// Decodes a team's level, stored as a number. Returns [`Permission::None`] for `None` and unknown
/// numbers.
pub(super) fn level_from_number(number: Option<i64>) -> Permission {
    match number {
        Some(1) => Permission::Read,
        Some(2) => Permission::Write,
        Some(3) => Permission::Admin,
        Some(4) => Permission::Owner,
        _ => Permission::None,
    }
}

/// Encodes a team's level for [`level_from_number`].
pub(super) fn level_number(permission: Permission) -> i64 {
    match permission {
        Permission::None | Permission::Read => 1,
        Permission::Write => 2,
        Permission::Admin => 3,
        Permission::Owner => 4,
    }
}
