use ferrite_core::net::StoreName;
use ferrite_core::page::Page;
use ferrite_core::startup::StartError;
use ferrite_core::{Clock, Secret};
use ferrite_db::{Db, Tx};

use crate::error::RepoError;
use crate::model::check_store_weight;
use crate::store::{Action, Actor, Entry, GitStore, GitStoreTable, Target, append};

const PAGE_SIZE: i32 = 100;

/// Manages the git stores of an installation directly in its database.
#[derive(Clone, Debug)]
pub struct GitStores {
    db: Db,
    table: GitStoreTable,
    clock: Clock,
}

impl GitStores {
    /// Opens the database of repo-svc and migrates its schema. Fails if the schema is newer than
    /// this program.
    pub async fn open(database_url: &Secret) -> Result<Self, StartError> {
        Ok(Self::over(super::open_database(database_url).await?))
    }

    /// `db` must have the current schema.
    pub(crate) fn over(db: Db) -> Self {
        Self { table: GitStoreTable::new(db.clone()), db, clock: Clock::system() }
    }

    /// Returns all stores, ordered by name.
    pub async fn list(&self) -> Result<Vec<GitStore>, RepoError> {
        let (mut stores, mut page) = (Vec::new(), 1);
        loop {
            let (rows, _) = self.table.list(Page::nearest(page, PAGE_SIZE, PAGE_SIZE)).await?;
            if rows.is_empty() {
                return Ok(stores);
            }
            stores.extend(rows);
            page += 1;
        }
    }

    /// Adds a store, or sets the weight of an existing one if `weight` is given. Returns whether it
    /// added the store.
    pub async fn add(&self, name: &StoreName, weight: Option<i32>) -> Result<bool, RepoError> {
        let weight = weight.map(|weight| check_store_weight(weight, "weight")).transpose()?;
        let now = self.clock.now_us();
        let mut tx = self.db.begin().await?;
        let change = self.table.set(&mut tx, name, weight, now).await?;
        if let Some((action, weight)) = change {
            record(&mut tx, action, name, Some(weight), now).await?;
        }
        tx.commit().await?;
        Ok(matches!(change, Some((Action::StoreAdd, _))))
    }

    pub async fn set_weight(&self, name: &StoreName, weight: i32) -> Result<(), RepoError> {
        let weight = check_store_weight(weight, "weight")?;
        let mut tx = self.db.begin().await?;
        let before = self.table.lock(&mut tx, name).await?.ok_or(RepoError::StoreNotFound)?;
        if before != i64::from(weight) {
            self.table.set_weight(&mut tx, name, weight).await?;
            record(&mut tx, Action::StoreUpdate, name, Some(weight), self.clock.now_us()).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Removes a store. Fails with [`RepoError::StoreNotEmpty`] if it still has repositories.
    pub async fn remove(&self, name: &StoreName) -> Result<(), RepoError> {
        let mut tx = self.db.begin().await?;
        self.table.delete(&mut tx, name).await?;
        record(&mut tx, Action::StoreRemove, name, None, self.clock.now_us()).await?;
        Ok(tx.commit().await?)
    }
}

/// Writes an audit log entry.
async fn record(
    tx: &mut Tx,
    action: Action,
    name: &StoreName,
    weight: Option<i32>,
    now_us: i64,
) -> Result<(), RepoError> {
    let details: Vec<_> = weight.map(|weight| ("weight", weight.to_string())).into_iter().collect();
    let entry = Entry { actor: &Actor::operator(), action, target: Target::git_store(name), details: &details };
    Ok(append(tx, entry, now_us).await?)
}

#[cfg(test)]
mod tests;
