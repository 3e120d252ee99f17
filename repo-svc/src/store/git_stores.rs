//! The git stores of the installation: names, weights, and how many repositories each has.
//! `placement` knows their state and chooses one for new repositories.

use std::collections::HashMap;

use ferrite_core::net::StoreName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::RepositoryId;

use super::audit::Action;
use super::sql::{Locking, locking};
use crate::error::RepoError;
use crate::model::DEFAULT_STORE_WEIGHT;

pub(crate) const MAX_STORES: i64 = 1_024;
/// Subscriber name from when there was a single store. After an upgrade, old rows still use it.
pub(crate) const FORMER_SUBSCRIBER: &str = "git-svc";

const ADD: &str = "INSERT INTO stores (name, created_us, weight) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const IS_ANY: &str = "SELECT name FROM stores LIMIT 1";
const NAMES: &str = "SELECT name FROM stores ORDER BY created_us, name LIMIT $1";
const OPEN: &str = "SELECT name, weight FROM stores WHERE weight > 0 ORDER BY name LIMIT $1";
const COLUMNS: &str = "SELECT s.name, s.weight, s.created_us, \
     (SELECT COUNT(*) FROM placements p WHERE p.store = s.name) AS repository_count FROM stores s";
const PAGE: &str = " ORDER BY s.name LIMIT ";
const COUNT: &str = "SELECT COUNT(*) FROM stores";
const LOCK: Locking = locking!("SELECT weight FROM stores WHERE name = $1", " FOR UPDATE");
const SET_WEIGHT: &str = "UPDATE stores SET weight = $2 WHERE name = $1";
const HAS_REPOSITORY: &str = "SELECT repository_id FROM placements WHERE store = $1 LIMIT 1";
const DELETE: &str = "DELETE FROM stores WHERE name = $1";
/// In the order of the relays, and before the events, as they do.
const LOCK_LANES: Locking =
    locking!("SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 ORDER BY repository_id", " FOR UPDATE");
const DELETE_EVENTS: &str = "DELETE FROM outbox WHERE subscriber = $1 AND delivered_us IS NULL";
const DELETE_LANES: &str = "DELETE FROM outbox_lanes WHERE subscriber = $1";
const HAS_FORMER_EVENT: &str = "SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 LIMIT 1";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct GitStore {
    pub name: String,
    /// Share of new repositories; 0 gets none.
    pub weight: i64,
    /// Includes unfinished repositories.
    pub repository_count: i64,
    /// Microseconds since 1970.
    pub created_us: i64,
}

/// A git store that accepts new repositories.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct OpenStore {
    pub(crate) name: String,
    /// Above zero.
    pub(crate) weight: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct GitStoreTable {
    db: Db,
}

pub(crate) fn store_subscriber(store: &str) -> String {
    format!("git-svc/{store}")
}

impl GitStoreTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Adds the stores of a new installation. Does nothing if there are stores already.
    pub(crate) async fn add_first(&self, names: &[StoreName], now_us: i64) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        if tx.optional::<(String,)>(IS_ANY, &[]).await?.is_none() {
            for name in names {
                tx.execute(ADD, &args![name.as_str(), now_us, i64::from(DEFAULT_STORE_WEIGHT)]).await?;
            }
        }
        tx.commit().await
    }

    /// Oldest first.
    pub(crate) async fn names(&self) -> Result<Vec<String>, DbError> {
        // Two added at the same time may exceed the limit.
        let rows: Vec<(String,)> = self.db.all(NAMES, &args![MAX_STORES * 2]).await?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }

    pub(crate) async fn open_stores(&self) -> Result<Vec<OpenStore>, DbError> {
        self.db.all(OPEN, &args![MAX_STORES]).await
    }

    /// Returns a page of stores, ordered by name, and the total.
    pub(crate) async fn list(&self, page: Page) -> Result<(Vec<GitStore>, i64), DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(PAGE).bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(COUNT, &[]).await?;
        Ok((self.db.all(query.sql(), query.args()).await?, total))
    }

    pub(crate) async fn find_in(&self, tx: &mut Tx, name: &StoreName) -> Result<Option<GitStore>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(" WHERE s.name = ").bind(name.as_str());
        tx.optional(query.sql(), query.args()).await
    }

    /// Locks a store until the transaction ends. Returns its weight; `None` if it does not exist.
    pub(crate) async fn lock(&self, tx: &mut Tx, name: &StoreName) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = tx.optional(LOCK.sql(tx), &args![name.as_str()]).await?;
        Ok(row.map(|(weight,)| weight))
    }

    /// Does nothing if the store exists.
    pub(crate) async fn add(&self, tx: &mut Tx, name: &StoreName, weight: i32, now_us: i64) -> Result<(), RepoError> {
        let (count,): (i64,) = tx.one(COUNT, &[]).await?;
        if count >= MAX_STORES {
            return Err(RepoError::StoreLimit { limit: MAX_STORES });
        }
        tx.execute(ADD, &args![name.as_str(), now_us, i64::from(weight)]).await?;
        Ok(())
    }

    /// Adds a store (with the default weight if none is given), or sets the given weight of an
    /// existing one. Returns what it did and the weight; `None` if nothing changed.
    pub(crate) async fn set(
        &self,
        tx: &mut Tx,
        name: &StoreName,
        weight: Option<i32>,
        now_us: i64,
    ) -> Result<Option<(Action, i32)>, RepoError> {
        let Some(before) = self.lock(tx, name).await? else {
            let weight = weight.unwrap_or(DEFAULT_STORE_WEIGHT);
            self.add(tx, name, weight, now_us).await?;
            return Ok(Some((Action::StoreAdd, weight)));
        };
        let Some(weight) = weight.filter(|weight| i64::from(*weight) != before) else { return Ok(None) };
        self.set_weight(tx, name, weight).await?;
        Ok(Some((Action::StoreUpdate, weight)))
    }

    pub(crate) async fn set_weight(&self, tx: &mut Tx, name: &StoreName, weight: i32) -> Result<(), DbError> {
        tx.execute(SET_WEIGHT, &args![name.as_str(), i64::from(weight)]).await.map(drop)
    }

    /// Removes a store and its pending events. Fails if it has repositories.
    pub(crate) async fn delete(&self, tx: &mut Tx, name: &StoreName) -> Result<(), RepoError> {
        self.lock(tx, name).await?.ok_or(RepoError::StoreNotFound)?;
        let repository: Option<(i64,)> = tx.optional(HAS_REPOSITORY, &args![name.as_str()]).await?;
        if repository.is_some() {
            return Err(RepoError::StoreNotEmpty);
        }
        let subscriber = store_subscriber(name.as_str());
        tx.execute(DELETE, &args![name.as_str()]).await?;
        tx.execute(LOCK_LANES.sql(tx), &args![subscriber.as_str()]).await?;
        tx.execute(DELETE_EVENTS, &args![subscriber.as_str()]).await?;
        tx.execute(DELETE_LANES, &args![subscriber.as_str()]).await?;
        Ok(())
    }

    /// Whether events are pending under [`FORMER_SUBSCRIBER`].
    pub(crate) async fn has_former_events(&self) -> Result<bool, DbError> {
        let row: Option<(i64,)> = self.db.optional(HAS_FORMER_EVENT, &args![FORMER_SUBSCRIBER]).await?;
        Ok(row.is_some())
    }

    /// Returns the stores of the repositories that exist, finished or not.
    pub(crate) async fn of_repositories(&self, ids: &[RepositoryId]) -> Result<HashMap<RepositoryId, String>, DbError> {
        let mut query = Query::new("SELECT repository_id, store FROM placements WHERE repository_id IN ");
        query.bind_list(ids.iter().map(|id| id.0));
        let rows: Vec<(i64, String)> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(id, store)| (RepositoryId(id), store)).collect())
    }
}

#[cfg(test)]
mod tests;
