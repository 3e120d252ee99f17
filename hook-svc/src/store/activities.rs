//! Reads the activities among the kept events, newest first.

use ferrite_db::args;
use ferrite_db::{DbError, Query};
use ferrite_proto::events::Event;
use ferrite_proto::hook::ActivityKind;
use ferrite_proto::id::{RepositoryId, UserId};
use prost::Message;
use sqlx_macros::FromRow;

use super::events::EventTable;

/// Repositories of an owner whose activities are read: those in which something happened last.
const MAX_OWNED_REPOSITORIES: i64 = 50;
/// Activities that are read of each of them.
const MAX_ACTIVITIES_OF_OWNED: i64 = 50;

const OF_USER: &str = "SELECT id, repository_id, activity FROM events \
     WHERE user_id = $1 AND activity > 0 AND is_in_feed ORDER BY id DESC LIMIT $2";
const OF_REPOSITORY: &str = "SELECT id, repository_id, activity FROM events \
     WHERE repository_id = $1 AND activity > 0 AND is_in_feed ORDER BY id DESC LIMIT $2";
/// Each look at a repository is one at an end of its part of the index, however many events it has.
const OF_OWNER: &str = "SELECT e.id, e.repository_id, e.activity FROM (SELECT repository_id FROM (SELECT h.repository_id, \
     (SELECT MAX(n.id) FROM events n WHERE n.repository_id = h.repository_id AND n.activity > 0 AND n.is_in_feed) AS newest_id \
     FROM hook_repositories h WHERE h.owner_id = $1 AND NOT h.is_deleted) AS owned \
     WHERE newest_id IS NOT NULL ORDER BY newest_id DESC LIMIT $3) AS latest \
     JOIN events e ON e.repository_id = latest.repository_id AND e.activity > 0 AND e.is_in_feed AND e.id >= COALESCE( \
     (SELECT l.id FROM events l WHERE l.repository_id = latest.repository_id AND l.activity > 0 AND l.is_in_feed \
     ORDER BY l.id DESC LIMIT 1 OFFSET $4), 0) ORDER BY e.id DESC LIMIT $2";
const FACTS: &str = "SELECT id, repository_id, user_id, activity, fact, COALESCE(happened_us, created_us) AS happened_us \
     FROM events WHERE is_in_feed AND id IN ";

/// An activity without its content, to decide who may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct ActivityRow {
    pub(crate) id: i64,
    pub(crate) repository_id: i64,
    activity: i64,
}

#[derive(Debug, FromRow)]
struct FactRow {
    id: i64,
    repository_id: i64,
    user_id: i64,
    activity: i64,
    fact: Vec<u8>,
    happened_us: i64,
}

/// An activity with the fact that tells of it.
#[derive(Clone, Debug)]
pub(crate) struct StoredActivity {
    pub(crate) id: i64,
    pub(crate) repository_id: i64,
    pub(crate) user_id: i64,
    pub(crate) kind: ActivityKind,
    pub(crate) fact: Event,
    pub(crate) happened_us: i64,
}

impl ActivityRow {
    /// Unspecified for a kind that this version does not know.
    pub(crate) fn kind(&self) -> ActivityKind {
        kind(self.activity)
    }
}

fn kind(column: i64) -> ActivityKind {
    i32::try_from(column).ok().and_then(|number| ActivityKind::try_from(number).ok()).unwrap_or_default()
}

impl EventTable {
    /// Returns the newest activities that a user caused.
    pub(crate) async fn activities_of_user(&self, user: UserId, limit: i64) -> Result<Vec<ActivityRow>, DbError> {
        self.db().all(OF_USER, &args![user, limit]).await
    }

    /// Returns the newest activities in a repository.
    pub(crate) async fn activities_of_repository(
        &self,
        repository: RepositoryId,
        limit: i64,
    ) -> Result<Vec<ActivityRow>, DbError> {
        self.db().all(OF_REPOSITORY, &args![repository, limit]).await
    }

    /// Returns the newest activities in the repositories of an account: at most
    /// [`MAX_ACTIVITIES_OF_OWNED`] in each of at most [`MAX_OWNED_REPOSITORIES`].
    pub(crate) async fn activities_of_owner(&self, owner: i64, limit: i64) -> Result<Vec<ActivityRow>, DbError> {
        self.db().all(OF_OWNER, &args![owner, limit, MAX_OWNED_REPOSITORIES, MAX_ACTIVITIES_OF_OWNED - 1]).await
    }

    /// Returns activities by id, newest first. Leaves out those that are no longer kept.
    pub(crate) async fn activities(&self, ids: &[i64]) -> Result<Vec<StoredActivity>, DbError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = Query::new(FACTS);
        query.bind_list(ids.iter().copied()).push(" ORDER BY id DESC");
        let rows: Vec<FactRow> = self.db().all(query.sql(), query.args()).await?;
        let read = |row: FactRow| match Event::decode(row.fact.as_slice()) {
            Ok(fact) => Some(StoredActivity {
                id: row.id,
                repository_id: row.repository_id,
                user_id: row.user_id,
                kind: kind(row.activity),
                fact,
                happened_us: row.happened_us,
            }),
            Err(error) => {
                tracing::error!(%error, event.id = row.id, "unreadable event; lists of activities omit it");
                None
            }
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use ferrite_db::Db;
    use ferrite_events::part_uuid;
    use ferrite_proto::events::event::Fact;
    use ferrite_proto::events::{RefUpdate, RefsUpdated};

    use super::*;
    use crate::store::events::{NewEvent, Source, insert, lock_repository};
    use crate::store::kept_bytes;
    use crate::testing::on_each_schema;

    fn new(repository: i64, user: i64, part: i64, name: &'static str) -> NewEvent {
        let update = RefUpdate { name: b"refs/heads/main".to_vec(), ..RefUpdate::default() };
        let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], ..RefsUpdated::default() });
        NewEvent {
            uuid: part_uuid("test", repository * 100_000 + part),
            repository: RepositoryId(repository),
            source: Source::Git,
            user: UserId(user),
            name,
            fact: Event { fact: Some(fact), ..Event::default() },
            payload: None,
            is_dispatched: true,
            is_in_feed: true,
            happened_us: part,
        }
    }

    /// Adds events of one repository and returns their ids.
    async fn add(db: &Db, owner: i64, events: &[NewEvent]) -> Vec<i64> {
        let mut tx = db.begin().await.unwrap();
        lock_repository(&mut tx, events[0].repository).await.unwrap();
        kept_bytes::set_owner(&mut tx, events[0].repository, owner).await.unwrap();
        let ids = insert(&mut tx, events, 1).await.unwrap();
        tx.commit().await.unwrap();
        ids
    }

    fn ids(rows: &[ActivityRow]) -> Vec<i64> {
        rows.iter().map(|row| row.id).collect()
    }

    fn newest_first(ids: &[i64]) -> Vec<i64> {
        ids.iter().rev().copied().collect()
    }

    #[tokio::test]
    async fn activities_are_found_by_user_repository_and_owner() {
        on_each_schema(&crate::migrations(), |db| async move {
            let store = EventTable::new(db.clone());
            let one = add(&db, 5, &[new(1, 7, 1, "push"), new(1, 8, 2, "create"), new(1, 8, 3, "push")]).await;
            let two = add(&db, 5, &[new(2, 7, 1, "push")]).await;
            let other = add(&db, 6, &[new(3, 7, 1, "delete")]).await;
            // The creation of a branch is told by its push.
            assert_eq!(ids(&store.activities_of_user(UserId(7), 10).await.unwrap()), [other[0], two[0], one[0]]);
            assert_eq!(ids(&store.activities_of_user(UserId(8), 10).await.unwrap()), [one[2]]);
            assert_eq!(ids(&store.activities_of_repository(RepositoryId(1), 10).await.unwrap()), [one[2], one[0]]);
            assert_eq!(ids(&store.activities_of_owner(5, 10).await.unwrap()), [two[0], one[2], one[0]]);
            assert_eq!(ids(&store.activities_of_owner(5, 1).await.unwrap()), [two[0]]);
            assert!(store.activities_of_owner(9, 10).await.unwrap().is_empty());
            let found = store.activities(&[one[0], other[0], 1]).await.unwrap();
            let found: Vec<_> = found.iter().map(|row| (row.id, row.repository_id, row.user_id, row.kind)).collect();
            let expected = [(other[0], 3, 7, ActivityKind::DeleteBranch), (one[0], 1, 7, ActivityKind::PushBranch)];
            assert_eq!(found, expected);
            // What leaves the feed is no activity.
            db.execute("UPDATE events SET is_in_feed = $1 WHERE id = $2", &args![false, two[0]]).await.unwrap();
            assert_eq!(ids(&store.activities_of_owner(5, 10).await.unwrap()), [one[2], one[0]]);
        })
        .await;
    }

    #[tokio::test]
    async fn a_busy_repository_leaves_room_for_the_others_of_its_owner() {
        on_each_schema(&crate::migrations(), |db| async move {
            let store = EventTable::new(db.clone());
            let quiet = add(&db, 5, &[new(1, 7, 1, "push")]).await;
            let many: Vec<_> = (0..60).map(|part| new(2, 7, part, "push")).collect();
            let busy = add(&db, 5, &many).await;
            let expected = [newest_first(&busy[10..]), quiet].concat();
            assert_eq!(ids(&store.activities_of_owner(5, 1_000).await.unwrap()), expected);
        })
        .await;
    }
}
