//! Rows of events as feeds read them, and their way out of the feeds.
//!
//! Not here: the deletion of rows that are in no feed any more (`removal`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Value};
use ferrite_proto::id::RepositoryId;

use super::events::{self, EventRow, EventTable, MadePayload, Source, StoredEvent};
use super::kept_bytes;
use super::removal::{self, MAX_BATCH_ROWS};

const PAGE: &str = "SELECT id, uuid, repository_id, source, name, fact, payload, revision, \
     COALESCE(happened_us, created_us) AS happened_us FROM events \
     WHERE repository_id = $1 AND id > $2 AND source <> $4 AND is_in_feed ORDER BY id LIMIT $3";
const NEWEST: &str = "SELECT COALESCE(MAX(id), 0) FROM events WHERE repository_id = $1";
/// The highest id that an event of any repository ever got, also after it was deleted. While none is known, or where the role may not
/// look at the sequence, the highest of all.
const LAST_ID_POSTGRES: &str = "SELECT COALESCE(CASE WHEN has_sequence_privilege(s.name, 'SELECT, USAGE') \
     THEN pg_sequence_last_value(CAST(s.name AS regclass)) END, 9223372036854775807) \
     FROM (SELECT pg_get_serial_sequence('events', 'id') AS name) s";
const LAST_ID_SQLITE: &str =
    "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 9223372036854775807)";
/// No source has this id.
const NO_SOURCE: i64 = 0;
const OLD: &str =
    "SELECT id, repository_id FROM events WHERE is_in_feed AND created_us < $1 ORDER BY created_us LIMIT $2";
const BEYOND: &str = "SELECT id, repository_id FROM events \
     WHERE repository_id = $1 AND is_in_feed AND id <= (SELECT id FROM events WHERE repository_id = $1 AND is_in_feed \
     ORDER BY id DESC LIMIT 1 OFFSET $2) ORDER BY id LIMIT $3";

impl EventTable {
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

    /// Returns the id of the newest event of a repository; zero if it has none.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn newest(&self, repository: RepositoryId) -> Result<i64, DbError> {
        let (id,): (i64,) = self.db().one(NEWEST, &args![repository]).await?;
        Ok(id)
    }

    /// Returns whether no event, kept or deleted, ever had this id or a higher one.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn is_unused(&self, id: i64) -> Result<bool, DbError> {
        let (last,): (i64,) = self.db().one(self.db().pick(LAST_ID_POSTGRES, LAST_ID_SQLITE), &[]).await?;
        Ok(id > last)
    }

    /// Stores payloads of events of a repository that have none, unless they are outdated.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn set_payloads(
        &self,
        repository: RepositoryId,
        payloads: &[MadePayload<'_>],
    ) -> Result<(), DbError> {
        if payloads.is_empty() {
            return Ok(());
        }
        let mut tx = self.db().begin_relaxed().await?;
        events::lock_repository(&mut tx, repository).await?;
        let bytes = events::set_payloads(&mut tx, payloads).await?;
        kept_bytes::add(&mut tx, repository, bytes).await?;
        tx.commit().await?;
        self.grown().add(repository, bytes);
        Ok(())
    }

    /// Takes a batch of events of before `before_us` out of the feeds. Returns whether there may be more.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn leave_feed_before(&self, before_us: i64) -> Result<bool, DbError> {
        self.leave_feed(OLD, &args![before_us]).await
    }

    /// Takes a batch of events beyond the `count` newest out of a repository's feed. Returns whether there may be more.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn leave_feed_beyond(&self, repository: RepositoryId, count: i64) -> Result<bool, DbError> {
        self.leave_feed(BEYOND, &args![repository, count]).await
    }

    async fn leave_feed(&self, sql: &'static str, args: &[Value]) -> Result<bool, DbError> {
        let found = removal::candidates(self.db(), sql, args, MAX_BATCH_ROWS).await?;
        removal::leave_feeds(self.db(), &found).await?;
        Ok(found.len() as i64 == MAX_BATCH_ROWS)
    }
}
