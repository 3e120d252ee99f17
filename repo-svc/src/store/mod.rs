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

#[cfg(test)]
mod tests;
