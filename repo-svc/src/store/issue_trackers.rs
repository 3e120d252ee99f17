//! The settings of issue trackers, which are columns of their repositories.
//!
//! Not here: their effect on access (`repositories`, `issue_repositories`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::RepositoryId;

use super::repositories::RepositoryStore;
use crate::model::{IssueTracker, TrackerStyle};

macro_rules! find {
    () => {
        "SELECT is_issues_enabled, is_external_tracker, external_tracker_url, tracker_url_format, tracker_issue_style \
         FROM repositories WHERE id = $1 AND state = 'ready'"
    };
}
/// Locks the row as other changes of a repository do. SQLite has a single writer anyway.
const LOCK_POSTGRES: &str = concat!(find!(), " FOR NO KEY UPDATE");
const LOCK_SQLITE: &str = find!();
const UPDATE: &str = "UPDATE repositories SET is_issues_enabled = $2, is_external_tracker = $3, external_tracker_url = $4, \
     tracker_url_format = $5, tracker_issue_style = $6, updated_us = CASE WHEN updated_us < $7 THEN $7 ELSE updated_us END \
     WHERE id = $1";

#[derive(Debug, sqlx::FromRow)]
struct IssueTrackerRow {
    is_issues_enabled: bool,
    is_external_tracker: bool,
    external_tracker_url: String,
    tracker_url_format: String,
    tracker_issue_style: String,
}

impl From<IssueTrackerRow> for IssueTracker {
    fn from(row: IssueTrackerRow) -> Self {
        let is_alphanumeric = row.tracker_issue_style == TrackerStyle::Alphanumeric.as_str();
        Self {
            is_enabled: row.is_issues_enabled,
            is_external: row.is_external_tracker,
            url: row.external_tracker_url,
            format: row.tracker_url_format,
            style: if is_alphanumeric { TrackerStyle::Alphanumeric } else { TrackerStyle::Numeric },
        }
    }
}

impl RepositoryStore {
    /// Returns the settings of a repository's issue tracker and locks the repository as [`RepositoryStore::lock`] does; `None` if it
    /// was deleted.
    pub(crate) async fn lock_issue_tracker(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
    ) -> Result<Option<IssueTracker>, DbError> {
        let row: Option<IssueTrackerRow> = tx.optional(tx.pick(LOCK_POSTGRES, LOCK_SQLITE), &args![id]).await?;
        Ok(row.map(IssueTracker::from))
    }

    /// Replaces the settings of a locked repository's issue tracker, and moves the time of its last update.
    pub(crate) async fn set_issue_tracker(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        tracker: &IssueTracker,
        now_us: i64,
    ) -> Result<(), DbError> {
        let args = args![
            id,
            tracker.is_enabled,
            tracker.is_external,
            tracker.url.as_str(),
            tracker.format.as_str(),
            tracker.style.as_str(),
            now_us,
        ];
        tx.execute(UPDATE, &args).await.map(drop)
    }
}
