//! Rows of events as feeds read them, and their way out of the feeds.
//!
//! Not here: the deletion of rows that are in no feed any more (`purge`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Query};
use ferrite_proto::id::RepositoryId;

use super::events::{EventRow, EventStore, Source, StoredEvent};
use super::purge::{MAX_BATCH_ROWS, batch};

const PAGE: &str = "SELECT id, uuid, repository_id, source, name, fact, payload FROM events \
     WHERE repository_id = $1 AND id > $2 AND is_in_feed AND source <> $4 ORDER BY id LIMIT $3";
/// No source has this id.
const NO_SOURCE: i64 = 0;
const SET_PAYLOADS: &str = "UPDATE events SET payload = v.column2 FROM (VALUES ";
const SET_PAYLOADS_WHERE: &str = ") AS v WHERE events.id = v.column1 AND payload IS NULL";
/// On PostgreSQL, rows that another transaction changes are left out: two that wait for each other's rows would be a deadlock.
const UNLOCKED_POSTGRES: &str = " AND events.id IN (SELECT id FROM events WHERE id IN ";
const UNLOCKED_END_POSTGRES: &str = " ORDER BY id FOR UPDATE SKIP LOCKED)";
const LEAVE_OLD: &str = "UPDATE events SET is_in_feed = FALSE WHERE id IN \
     (SELECT id FROM events WHERE is_in_feed AND created_us < $1 ORDER BY created_us LIMIT $2) RETURNING id";
const LEAVE_BEYOND: &str = "UPDATE events SET is_in_feed = FALSE WHERE id IN (SELECT id FROM events \
     WHERE repository_id = $1 AND is_in_feed AND id <= (SELECT id FROM events WHERE repository_id = $1 AND is_in_feed \
     ORDER BY id DESC LIMIT 1 OFFSET $2) ORDER BY id LIMIT $3) RETURNING id";

impl EventStore {
    /// Returns at most `limit` events of a repository's feed whose ids are above `after`, by id, but those of the source `without`.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn feed_page(
        &self,
        repository: RepositoryId,
        after: i64,
        limit: i64,
        without: Option<Source>,
    ) -> Result<Vec<StoredEvent>, DbError> {
        let args = args![repository, after, limit, without.map_or(NO_SOURCE, Source::id)];
        let rows: Vec<EventRow> = self.db().all(PAGE, &args).await?;
        Ok(rows.into_iter().map(StoredEvent::from).collect())
    }

    /// Stores payloads of events that have none. Of events that are changed at the same time they may not be stored, and are made again.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn set_payloads(&self, payloads: &[(i64, String)]) -> Result<(), DbError> {
        if payloads.is_empty() {
            return Ok(());
        }
        let mut query = Query::new(SET_PAYLOADS);
        query.bind_rows(payloads.iter().map(|(id, payload)| args![*id, payload])).push(SET_PAYLOADS_WHERE);
        if self.db().pick(true, false) {
            query.push(UNLOCKED_POSTGRES).bind_list(payloads.iter().map(|(id, _)| *id)).push(UNLOCKED_END_POSTGRES);
        }
        self.db().execute(query.sql(), query.args()).await.map(drop)
    }

    /// Takes a batch of events of before `before_us` out of the feeds. Returns whether there may be more.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn leave_feed_before(&self, before_us: i64) -> Result<bool, DbError> {
        batch(self.db(), LEAVE_OLD, &args![before_us, MAX_BATCH_ROWS]).await
    }

    /// Takes a batch of events beyond the `count` newest out of a repository's feed. Returns whether there may be more.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn leave_feed_beyond(&self, repository: RepositoryId, count: i64) -> Result<bool, DbError> {
        batch(self.db(), LEAVE_BEYOND, &args![repository, count, MAX_BATCH_ROWS]).await
    }
}
