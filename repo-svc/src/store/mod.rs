//! SQL and rows, one file per aggregate: the only place that knows tables.
//!
//! Not here: what is valid (`model`) and who may (`access`).

mod accounts;
mod repositories;
mod tokens;

pub(crate) use accounts::AccountStore;
pub(crate) use repositories::{Finished, NewRepository, Repository, RepositoryKey, RepositoryStore};
pub(crate) use tokens::{TokenRow, TokenStore};

use ferrite_kit::db::Migrations;

/// The schema of this service.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}

/// One page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// How many rows.
    pub(crate) limit: i64,
    /// How many rows come before it.
    pub(crate) offset: i64,
}

impl Page {
    /// Page `number` (from 1; less counts as 1) of `size` rows, where a size out of range becomes the nearest one in it.
    pub(crate) fn new(number: i32, size: i32, max: i32) -> Self {
        let limit = i64::from(size.clamp(1, max));
        Self { limit, offset: (i64::from(number.max(1)) - 1) * limit }
    }
}

#[cfg(test)]
mod tests;
