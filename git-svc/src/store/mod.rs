//! The tables of git-svc, and the only place that knows them.

mod journal;
mod maintenance;
mod protections;
mod repositories;

use ferrite_kit::db::Migrations;

pub(crate) use self::{
    journal::{Change, Entry, Journal, NewBatch, UpdateKind, ZERO},
    maintenance::{Maintenance, NEVER, Upkept},
    protections::Protections,
    repositories::{Placed, Repositories},
};

/// The schema.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}
