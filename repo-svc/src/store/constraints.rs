//! Conversions of violated constraints to the errors that they stand for. Other errors of the database stay what they are.

use ferrite_kit::db::DbError;

use crate::error::RepoError;

/// Returns a conversion to `missing` for a foreign key whose row was deleted.
pub(crate) fn or_missing(missing: impl Into<RepoError>) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_foreign_key() { missing.into() } else { error.into() }
}

/// Returns a conversion to the error that `taken` makes for a value that another row has.
pub(super) fn or_taken(taken: impl FnOnce() -> RepoError) -> impl FnOnce(DbError) -> RepoError {
    |error| if error.is_unique() { taken() } else { error.into() }
}
