//! Reads the events of feeds, advances event ids, and removes events from feeds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ferrite_db::args;
use ferrite_db::{DbError, Value};
use ferrite_proto::id::RepositoryId;
use sqlx_macros::FromRow;

use super::events::{self, EventRow, EventTable, MadePayload, Source, StoredEvent};
use super::kept_bytes;
use super::removal::{self, MAX_BATCH_ROWS};

const PAGE: &str = "SELECT id, uuid, repository_id, source, name, fact, payload, revision, \
     COALESCE(happened_us, created_us) AS happened_us FROM events \
     WHERE repository_id = $1 AND id > $2 AND source <> $4 AND is_in_feed ORDER BY id LIMIT $3";
const NEWEST: &str = "SELECT COALESCE(MAX(id), 0) FROM events WHERE repository_id = $1";
/// Another process may be advancing the ids too, and storing events with them.
const LOCK_IDS_POSTGRES: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.event_ids'))) AS lock";
/// Returns false if the database role lacks the privilege.
const ADVANCE_IDS_POSTGRES: &str = "SELECT CASE \
     WHEN NOT (has_sequence_privilege(s.name, 'UPDATE') AND has_sequence_privilege(s.name, 'SELECT, USAGE')) THEN FALSE \
     WHEN COALESCE(pg_sequence_last_value(CAST(s.name AS regclass)), 0) >= $1 THEN TRUE \
     ELSE setval(CAST(s.name AS regclass), $1) = $1 END FROM (SELECT pg_get_serial_sequence('events', 'id') AS name) s";
const ADVANCE_IDS_SQLITE: &str = "UPDATE sqlite_sequence SET seq = $1 WHERE name = 'events' AND seq < $1";
/// The row does not exist before the first event.
const BEGIN_IDS_SQLITE: &str = "INSERT INTO sqlite_sequence (name, seq) \
     SELECT 'events', $1 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'events')";
/// No source has this id.
const NO_SOURCE: i64 = 0;
const OLD: &str =
    "SELECT id, repository_id FROM events WHERE is_in_feed AND created_us < $1 ORDER BY created_us LIMIT $2";
const ALL: &str = "SELECT id, repository_id FROM events WHERE repository_id = $1 AND is_in_feed ORDER BY id LIMIT $2";
/// The users with the most events in a feed. Ties go to the user with the oldest event.
const USERS: &str = "SELECT user_id, COUNT(*) AS events, MIN(id) AS oldest_id, CAST(SUM(COUNT(*)) OVER () AS BIGINT) AS all_events \
     FROM events WHERE repository_id = $1 AND is_in_feed GROUP BY user_id ORDER BY COUNT(*) DESC, MIN(id) LIMIT $2";
const OLDEST_OF_USER: &str = "SELECT id, repository_id FROM events \
     WHERE repository_id = $1 AND user_id = $2 AND is_in_feed ORDER BY id LIMIT $3";

#[derive(Clone, Copy, Debug, FromRow)]
struct FeedUser {
    user_id: i64,
    events: i64,
    oldest_id: i64,
    /// Events of all users.
    all_events: i64,
}

/// Returns how many events each user loses when `count` leave a feed. Each time, the user with the
/// most events loses one.
fn shares(users: &[FeedUser], count: i64) -> BTreeMap<i64, i64> {
    let mut queue: BinaryHeap<_> =
        users.iter().map(|user| (user.events, Reverse(user.oldest_id), user.user_id)).collect();
    let mut shares = BTreeMap::new();
    for _ in 0..count {
        let Some((events, oldest, user)) = queue.pop() else { break };
        *shares.entry(user).or_default() += 1;
        queue.push((events - 1, oldest, user));
    }
    shares
}

impl EventTable {
    /// Returns at most `limit` events of a repository's feed with ids above `after`, by id. Skips
    /// the source `without`.
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

    /// Returns the id of the newest event of a repository, or zero.
    pub(crate) async fn newest(&self, repository: RepositoryId) -> Result<i64, DbError> {
        let (id,): (i64,) = self.db().one(NEWEST, &args![repository]).await?;
        Ok(id)
    }

    /// Makes event ids continue above `now_us`, unless they already do. After a backup is restored,
    /// new ids are then greater than any that readers may hold as cursors.
    pub(crate) async fn advance_ids(&self, now_us: i64) -> Result<(), DbError> {
        let mut tx = self.db().begin().await?;
        if tx.pick(true, false) {
            let _: (i64,) = tx.one(LOCK_IDS_POSTGRES, &[]).await?;
            let (is_permitted,): (bool,) = tx.one(ADVANCE_IDS_POSTGRES, &args![now_us]).await?;
            if !is_permitted {
                tracing::warn!(
                    "the database role cannot advance event ids: grant it UPDATE and USAGE on their sequence"
                );
            }
        } else {
            tx.execute(ADVANCE_IDS_SQLITE, &args![now_us]).await?;
            tx.execute(BEGIN_IDS_SQLITE, &args![now_us]).await?;
        }
        tx.commit().await
    }

    /// Stores payloads of a repository's events that have none, unless they are outdated.
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

    /// Removes a batch of events received before `before_us` from their feeds. Returns whether
    /// there may be more.
    pub(crate) async fn leave_feed_before(&self, before_us: i64) -> Result<bool, DbError> {
        self.leave_feed(OLD, &args![before_us]).await
    }

    /// Removes a batch of events from a feed with more than `count`: the oldest of the users who
    /// have most, so nobody can push out the events of others. Returns whether there may be more.
    pub(crate) async fn leave_feed_beyond(&self, repository: RepositoryId, count: i64) -> Result<bool, DbError> {
        // No more users than events in a batch: each loses at least one.
        let users: Vec<FeedUser> = self.db().all(USERS, &args![repository, MAX_BATCH_ROWS]).await?;
        let excess = users.first().map_or(0, |user| user.all_events - count).min(MAX_BATCH_ROWS);
        let mut found = Vec::new();
        for (user, share) in shares(&users, excess) {
            found.extend(removal::candidates(self.db(), OLDEST_OF_USER, &args![repository, user], share).await?);
        }
        removal::leave_feeds(self.db(), &found).await?;
        Ok(excess == MAX_BATCH_ROWS)
    }

    /// Removes a batch of events from a repository's feed. Returns whether there may be more.
    pub(crate) async fn empty_feed(&self, repository: RepositoryId) -> Result<bool, DbError> {
        self.leave_feed(ALL, &args![repository]).await
    }

    async fn leave_feed(&self, sql: &'static str, args: &[Value]) -> Result<bool, DbError> {
        let found = removal::candidates(self.db(), sql, args, MAX_BATCH_ROWS).await?;
        removal::leave_feeds(self.db(), &found).await?;
        Ok(found.len() as i64 == MAX_BATCH_ROWS)
    }
}
