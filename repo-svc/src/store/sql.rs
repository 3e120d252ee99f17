//! Helpers for the SQL of several files: row locks, errors for violated constraints, and access levels as stored in columns.

use ferrite_db::{DbError, Tx};
use ferrite_proto::Permission;

use crate::error::RepoError;
use crate::model::level_named;

/// A statement that locks the rows that it reads. On SQLite it locks nothing, because there is a single writer anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locking {
    pub(super) postgres: &'static str,
    /// The statement without the lock.
    pub(super) plain: &'static str,
}

impl Locking {
    /// Returns the statement for the database of a transaction.
    pub(super) fn sql(self, tx: &Tx) -> &'static str {
        tx.pick(self.postgres, self.plain)
    }
}

/// Makes a [`Locking`] of a statement and of the clause that locks on PostgreSQL.
macro_rules! locking {
    ($plain:expr, $clause:literal) => {
        $crate::store::sql::Locking { postgres: concat!($plain, $clause), plain: $plain }
    };
}
pub(super) use locking;

/// Returns a conversion to `missing` for a foreign key whose row was deleted. Other errors stay what they are.
pub(crate) fn or_missing(missing: impl Into<RepoError>) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_foreign_key() { missing.into() } else { error.into() }
}

/// Returns a conversion to the error that `taken` makes for a value that another row has. Other errors stay what they are.
pub(super) fn or_taken(taken: impl FnOnce() -> RepoError) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_unique() { taken() } else { error.into() }
}

/// Decodes a level of a collaborator, which is stored as a word. Returns [`Permission::None`] for `None` and unknown words.
pub(super) fn level_from_str(word: Option<&str>) -> Permission {
    word.and_then(level_named).unwrap_or(Permission::None)
}

/// Decodes a level of a team, which is stored as a number. Returns [`Permission::None`] for `None` and unknown numbers.
pub(super) fn level_from_number(number: Option<i64>) -> Permission {
    match number {
        Some(1) => Permission::Read,
        Some(2) => Permission::Write,
        Some(3) => Permission::Admin,
        Some(4) => Permission::Owner,
        _ => Permission::None,
    }
}

/// Encodes a level that a team may have; decoded by [`level_from_number`].
pub(super) fn level_number(permission: Permission) -> i64 {
    match permission {
        Permission::None | Permission::Read => 1,
        Permission::Write => 2,
        Permission::Admin => 3,
        Permission::Owner => 4,
    }
}
