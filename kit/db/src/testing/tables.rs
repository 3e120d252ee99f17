use std::path::Path;

use sqlx::migrate::Migrator;

use crate::{Db, Migrations};

/// Returns migrations with the versions 1, 2, … and these statements in each dialect.
pub async fn migrations(postgres: &[&'static str], sqlite: &[&'static str]) -> Migrations {
    Migrations { postgres: migrator(postgres).await, sqlite: migrator(sqlite).await }
}

async fn migrator(statements: &[&'static str]) -> Migrator {
    let folder = tempfile::tempdir().unwrap();
    for (number, sql) in (1..).zip(statements) {
        std::fs::write(folder.path().join(format!("{number:04}_step.sql")), sql).unwrap();
    }
    Migrator::new(folder.path() as &Path).await.unwrap()
}

const TABLES_POSTGRES: &str = "
CREATE TABLE outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id TEXT NOT NULL, subscriber TEXT NOT NULL,
    repository_id BIGINT NOT NULL, kind TEXT NOT NULL, payload BYTEA NOT NULL, created_us BIGINT NOT NULL,
    delivered_us BIGINT, UNIQUE (event_id, subscriber)
);
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE TABLE outbox_lanes (
    subscriber TEXT NOT NULL, repository_id BIGINT NOT NULL, waiting_count BIGINT NOT NULL, due_us BIGINT NOT NULL,
    claim_id BIGINT NOT NULL, attempts BIGINT NOT NULL, delivered_id BIGINT NOT NULL, PRIMARY KEY (subscriber, repository_id)
);
CREATE INDEX outbox_lanes_due ON outbox_lanes (subscriber, due_us);
CREATE TABLE inbox (
    event_id TEXT PRIMARY KEY, repository_id BIGINT NOT NULL, kind TEXT NOT NULL, received_us BIGINT NOT NULL
);
CREATE TABLE idempotency (
    key_hash TEXT PRIMARY KEY, request_hash TEXT NOT NULL, answer BYTEA NOT NULL, created_us BIGINT NOT NULL
);
CREATE TABLE effects (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, repository_id BIGINT NOT NULL, number BIGINT NOT NULL
);";

const TABLES_SQLITE: &str = "
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, subscriber TEXT NOT NULL,
    repository_id INTEGER NOT NULL, kind TEXT NOT NULL, payload BLOB NOT NULL, created_us INTEGER NOT NULL,
    delivered_us INTEGER, UNIQUE (event_id, subscriber)
) STRICT;
CREATE INDEX outbox_waiting ON outbox (subscriber, repository_id, id) WHERE delivered_us IS NULL;
CREATE TABLE outbox_lanes (
    subscriber TEXT NOT NULL, repository_id INTEGER NOT NULL, waiting_count INTEGER NOT NULL, due_us INTEGER NOT NULL,
    claim_id INTEGER NOT NULL, attempts INTEGER NOT NULL, delivered_id INTEGER NOT NULL, PRIMARY KEY (subscriber, repository_id)
) STRICT;
CREATE INDEX outbox_lanes_due ON outbox_lanes (subscriber, due_us);
CREATE TABLE inbox (
    event_id TEXT PRIMARY KEY, repository_id INTEGER NOT NULL, kind TEXT NOT NULL, received_us INTEGER NOT NULL
) STRICT;
CREATE TABLE idempotency (
    key_hash TEXT PRIMARY KEY, request_hash TEXT NOT NULL, answer BLOB NOT NULL, created_us INTEGER NOT NULL
) STRICT;
CREATE TABLE effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, repository_id INTEGER NOT NULL, number INTEGER NOT NULL
) STRICT;";

/// Creates the tables that every service has (`docs/events.md`), and `effects` for the effects of a test subscriber.
pub async fn service_tables(db: &Db) {
    migrations(&[TABLES_POSTGRES], &[TABLES_SQLITE]).await.run(db).await.unwrap();
}
