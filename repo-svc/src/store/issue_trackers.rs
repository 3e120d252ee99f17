//! The settings of issue trackers, which are columns of their repositories.
//!
//! Not here: their effect on access (`repositories`, `issue_repositories`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::RepositoryId;

use super::repositories::RepositoryStore;
use super::sql::{Locking, locking};
use crate::model::{IssueTracker, TrackerStyle};

/// Locks the row as other changes of a repository do.
const LOCK: Locking = locking!(
    "SELECT is_issues_enabled, is_external_tracker, external_tracker_url, tracker_url_format, tracker_issue_style \
     FROM repositories WHERE id = $1 AND state = 'ready'",
    " FOR NO KEY UPDATE"
);
const UPDATE: &str = "UPDATE repositories SET is_issues_enabled = $2, is_external_tracker = $3, external_tracker_url = $4, \
     tracker_url_format = $5, tracker_issue_style = $6, updated_us = CASE WHEN updated_us < $7 THEN $7 ELSE updated_us END \
     WHERE id = $1";

impl RepositoryStore {
    /// Returns the settings of a repository's issue tracker and locks the repository as [`RepositoryStore::lock`] does; `None` if it
    /// was deleted.
    pub(crate) async fn lock_issue_tracker(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
    ) -> Result<Option<IssueTracker>, DbError> {
        let row: Option<(bool, bool, String, String, String)> = tx.optional(LOCK.sql(tx), &args![id]).await?;
        Ok(row.map(|(is_enabled, is_external, url, format, style)| {
            let is_alphanumeric = style == TrackerStyle::Alphanumeric.as_str();
            let style = if is_alphanumeric { TrackerStyle::Alphanumeric } else { TrackerStyle::Numeric };
            IssueTracker { is_enabled, is_external, url, format, style }
        }))
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
