//! Database tables. All SQL of this crate is here.

mod imports;
mod journal;
mod languages;
mod maintenance;
mod merges;
mod mirrors;
mod protections;
mod pull_heads;
mod renamed_branches;
mod repositories;
mod statuses;

use ferrite_db::Migrations;

pub(crate) use self::{
    imports::{ImportPhase, ImportRow, ImportState, ImportTable, count},
    journal::{Journal, JournalEntry, NewBatch, RefTransaction, UpdateKind, ZERO, hex},
    languages::{LanguageRow, LanguageTable},
    maintenance::{MaintenanceRow, MaintenanceTable, NEVER},
    merges::MergeTable,
    mirrors::{MirrorRow, MirrorTable},
    protections::ProtectionTable,
    pull_heads::PullHeadTable,
    renamed_branches::RenamedBranchTable,
    repositories::RepositoryTable,
    statuses::{NewStatus, StatusRow, StatusTable},
};

pub(crate) fn migrations() -> Migrations {
    Migrations {
        postgres: sqlx_macros::migrate!("migrations/postgres"),
        sqlite: sqlx_macros::migrate!("migrations/sqlite"),
    }
}
