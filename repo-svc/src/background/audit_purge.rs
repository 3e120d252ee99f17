use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::DbError;

use crate::store::AuditTable;

const INTERVAL: Duration = Duration::from_secs(3600);
/// Gives writers a turn between two batches.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Deletes audit log entries older than `days`; zero keeps them forever.
#[derive(Clone, Debug)]
pub(crate) struct AuditPurge {
    audit: AuditTable,
    days: u32,
    clock: Clock,
}

impl AuditPurge {
    pub(crate) fn new(audit: AuditTable, days: u32, clock: Clock) -> Self {
        Self { audit, days, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("audit log purge", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.purge(&life2).await {
                    tracing::warn!(%error, "cannot delete old audit log entries; will retry");
                }
                life2.pause(INTERVAL).await;
            }
        });
    }

    pub(crate) async fn purge(&self, life: &Lifecycle) -> Result<(), DbError> {
        if self.days == 0 {
            return Ok(());
        }
        let before_us = self.clock.now_us().saturating_sub(micros(DAY * self.days));
        while !life.is_stopping() {
            let count = self.audit.purge(before_us).await?;
            if count == 0 {
                break;
            }
            metrics::counter!("ferrite_audit_entries_deleted_total").increment(count as u64);
            life.pause(BATCH_PAUSE).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::page::Page;
    use ferrite_db::Db;
    use ferrite_db::testing::on_each_schema;

    use super::*;
    use crate::store::{Action, Actor, AuditFilter, Entry, Target, append, migrations};

    const DAY_US: i64 = 24 * 3600 * 1_000_000;

    /// Adds one entry per day, from day 0.
    async fn log(db: &Db, days: i64) {
        let mut tx = db.begin().await.unwrap();
        for day in 0..days {
            let actor = Actor::operator();
            let entry = Entry { actor: &actor, action: Action::UserUpdate, target: Target::site(), details: &[] };
            append(&mut tx, entry, day * DAY_US).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    /// Returns the days of the remaining entries, newest first, and their number.
    async fn left(audit: &AuditTable) -> (Vec<i64>, i64) {
        let (rows, total) = audit.list(&AuditFilter::default(), Page::nearest(1, 100, 100)).await.unwrap();
        (rows.iter().map(|row| row.time_us / DAY_US).collect(), total)
    }

    #[tokio::test]
    async fn entries_go_when_they_are_old() {
        on_each_schema(&migrations(), |db| async move {
            // More than one batch.
            log(&db, 405).await;
            let audit = AuditTable::new(db);
            let life = Lifecycle::new(Duration::ZERO);
            let clock = Clock::fixed(404 * DAY_US);
            AuditPurge::new(audit.clone(), 3, clock.clone()).purge(&life).await.unwrap();
            assert_eq!(left(&audit).await, (vec![404, 403, 402, 401], 4));
            AuditPurge::new(audit.clone(), 3, clock).purge(&life).await.unwrap();
            assert_eq!(left(&audit).await.1, 4);
        })
        .await;
    }

    #[tokio::test]
    async fn a_log_without_an_age_keeps_everything() {
        on_each_schema(&migrations(), |db| async move {
            log(&db, 2).await;
            let audit = AuditTable::new(db);
            let life = Lifecycle::new(Duration::ZERO);
            AuditPurge::new(audit.clone(), 0, Clock::fixed(i64::MAX)).purge(&life).await.unwrap();
            assert_eq!(left(&audit).await.1, 2);
        })
        .await;
    }
}
