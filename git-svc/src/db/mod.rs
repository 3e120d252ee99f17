//! The tables of git-svc, and the only place that knows them.

mod journal;
mod maintenance;
mod protections;
mod repositories;

use ferrite_kit::db::Migrations;

pub(crate) use self::{
    journal::{Journal, JournalEntry, NewBatch, RefTransaction, UpdateKind, ZERO},
    maintenance::{MaintenanceRow, MaintenanceTable, NEVER},
    protections::ProtectionTable,
    repositories::{RepositoryRow, RepositoryTable},
};

/// The schema.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}
