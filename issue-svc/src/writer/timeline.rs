//! The limits of timelines: their settings and the task that enforces them.

use std::time::Duration;

use clap::Args;
use ferrite_core::config::within;
use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_proto::id::IssueId;

use crate::error::IssueError;
use crate::store::{AgeCursor, IssueTable};

/// Pause that collects grown timelines, to trim them together.
const GROWN_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between checks of all issues and of old entries.
const ROUND_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Lets other writers go first.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const FAILURE_PAUSE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Bounds of timelines.
#[derive(Args, Clone, Copy, Debug)]
pub struct TimelineArgs {
    /// Timeline entries to keep per issue.
    #[arg(long, env = "FERRITE_ISSUE_TIMELINE_ENTRIES", default_value_t = 5_000, value_parser = within::<i64>(100..=1_000_000))]
    pub timeline_entries: i64,

    /// Retention of minor timeline entries (titles, labels and others), in days; 0: forever.
    #[arg(long, env = "FERRITE_ISSUE_TIMELINE_DAYS", default_value_t = 0, value_parser = within::<u32>(0..=36_500))]
    pub timeline_days: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct TimelineTrimmer {
    pub(crate) store: IssueTable,
    pub(crate) bounds: TimelineArgs,
    pub(crate) clock: Clock,
}

impl TimelineTrimmer {
    pub(crate) fn start(self, life: &Lifecycle) {
        let (trimmer, life2) = (self.clone(), life.clone());
        life.spawn("timelines that grew", async move {
            tokio::select! {
                () = life2.stopping() => {}
                () = trimmer.watch_grown(&life2) => {}
            }
        });
        let life2 = life.clone();
        life.spawn("old timelines", async move {
            let mut cursor = AgeCursor::default();
            while !life2.is_stopping() {
                let pause = match self.round(&mut cursor, &life2).await {
                    Ok(()) => ROUND_INTERVAL,
                    Err(error) => {
                        warn(&error);
                        FAILURE_PAUSE
                    }
                };
                life2.pause(pause).await;
            }
        });
    }

    async fn watch_grown(&self, life: &Lifecycle) {
        loop {
            self.store.grown_timelines().grown().await;
            life.pause(GROWN_INTERVAL).await;
            for issue in self.store.grown_timelines().take() {
                if let Err(error) = self.trim(issue).await {
                    warn(&error);
                    life.pause(FAILURE_PAUSE).await;
                }
            }
        }
    }

    async fn trim(&self, issue: IssueId) -> Result<(), IssueError> {
        loop {
            let count = self.store.trim_timeline(issue, self.bounds.timeline_entries).await?;
            if count == 0 {
                return Ok(());
            }
            report(count);
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }

    /// Trims timelines that another process or an older version left too long, and deletes old
    /// entries.
    async fn round(&self, cursor: &mut AgeCursor, life: &Lifecycle) -> Result<(), IssueError> {
        let mut after = IssueId(0);
        while !life.is_stopping() {
            let (long, last) = self.store.long_timelines(after, self.bounds.timeline_entries).await?;
            let Some(last) = last else { break };
            after = last;
            for issue in long {
                self.trim(issue).await?;
            }
            life.pause(BATCH_PAUSE).await;
        }
        if self.bounds.timeline_days == 0 {
            return Ok(());
        }
        let before_us = self.clock.now_us().saturating_sub(micros(DAY * self.bounds.timeline_days));
        while !life.is_stopping() {
            let Some(count) = self.store.delete_old_entries(cursor, before_us).await? else { break };
            report(count);
            life.pause(BATCH_PAUSE).await;
        }
        Ok(())
    }
}

fn report(count: u64) {
    metrics::counter!("ferrite_issue_timeline_entries_deleted_total").increment(count);
}

fn warn(error: &IssueError) {
    tracing::warn!(error = error as &dyn std::error::Error, "cannot trim timelines; will retry");
}

#[cfg(test)]
mod tests {
    use ferrite_core::testing::eventually;
    use ferrite_db::Db;
    use ferrite_db::args;
    use ferrite_db::testing::on_each_schema;
    use ferrite_proto::id::UserId;
    use ferrite_proto::issue::TimelineAction;

    use super::*;
    use crate::store::TimelineEntry;

    const DAY_US: i64 = 24 * 3600 * 1_000_000;

    fn trimmer(db: &Db, timeline_days: u32) -> TimelineTrimmer {
        let bounds = TimelineArgs { timeline_entries: 100, timeline_days };
        TimelineTrimmer { store: IssueTable::new(db.clone()), bounds, clock: Clock::fixed(100 * DAY_US) }
    }

    async fn insert_issue(db: &Db) {
        let sql = "INSERT INTO issues (repository_id, number, user_id, title, body, comment_count, created_us, updated_us) \
             VALUES (1, 1, 1, '', '', 0, 1, 1)";
        db.execute(sql, &[]).await.unwrap();
    }

    async fn add(store: &IssueTable, action: TimelineAction, count: i64, time_us: i64) {
        let mut tx = store.db().begin().await.unwrap();
        let entry = TimelineEntry::new(action, UserId(1), time_us);
        let entries: Vec<_> = (0..count).map(|_| entry.clone()).collect();
        store.add_entries(&mut tx, IssueId(1), &entries).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn count(db: &Db, action: TimelineAction) -> i64 {
        let sql = "SELECT COUNT(*) FROM timeline WHERE action = $1";
        db.one::<(i64,)>(sql, &args![i64::from(i32::from(action))]).await.unwrap().0
    }

    #[tokio::test]
    async fn changes_leave_a_long_timeline_before_what_closed_the_issue() {
        on_each_schema(&crate::migrations(), |db| async move {
            insert_issue(&db).await;
            let trimmer = trimmer(&db, 0);
            let store = &trimmer.store;
            add(store, TimelineAction::Closed, 40, 1).await;
            add(store, TimelineAction::Labeled, 500, 2).await;
            add(store, TimelineAction::Reopened, 40, 3).await;
            let life = Lifecycle::new(Duration::ZERO);
            trimmer.round(&mut AgeCursor::default(), &life).await.unwrap();
            let left = [TimelineAction::Closed, TimelineAction::Labeled, TimelineAction::Reopened];
            let [closed, labeled, reopened] = left.map(|action| count(&db, action));
            assert_eq!((closed.await, labeled.await, reopened.await), (40, 20, 40));
            // The remaining labels go first, then the oldest of the other entries.
            add(store, TimelineAction::Reopened, 70, 4).await;
            trimmer.round(&mut AgeCursor::default(), &life).await.unwrap();
            let [closed, labeled, reopened] = left.map(|action| count(&db, action));
            assert_eq!((closed.await, labeled.await, reopened.await), (0, 0, 100));
        })
        .await;
    }

    #[tokio::test]
    async fn a_timeline_is_trimmed_soon_after_it_grew() {
        on_each_schema(&crate::migrations(), |db| async move {
            insert_issue(&db).await;
            let trimmer = trimmer(&db, 0);
            let life = Lifecycle::new(Duration::ZERO);
            trimmer.clone().start(&life);
            add(&trimmer.store, TimelineAction::Labeled, 450, 1).await;
            eventually("the timeline is short", async || count(&db, TimelineAction::Labeled).await == 100).await;
            life.stop();
        })
        .await;
    }

    #[tokio::test]
    async fn changes_go_when_they_are_old_and_what_closed_the_issue_stays() {
        on_each_schema(&crate::migrations(), |db| async move {
            insert_issue(&db).await;
            let mut trimmer = trimmer(&db, 30);
            trimmer.bounds.timeline_entries = 10_000;
            add(&trimmer.store, TimelineAction::Assigned, 450, DAY_US).await;
            add(&trimmer.store, TimelineAction::Closed, 2, 2 * DAY_US).await;
            add(&trimmer.store, TimelineAction::Edited, 3, 70 * DAY_US).await;
            let life = Lifecycle::new(Duration::ZERO);
            let mut cursor = AgeCursor::default();
            trimmer.round(&mut cursor, &life).await.unwrap();
            let left = [TimelineAction::Assigned, TimelineAction::Closed, TimelineAction::Edited];
            let [assigned, closed, edited] = left.map(|action| count(&db, action));
            assert_eq!((assigned.await, closed.await, edited.await), (0, 2, 3));
            trimmer.clock.advance(DAY);
            trimmer.round(&mut cursor, &life).await.unwrap();
            assert_eq!(count(&db, TimelineAction::Edited).await, 0);
        })
        .await;
    }
}
