use ferrite_core::net::StoreName;
use ferrite_core::page::Page;
use ferrite_core::startup::StartError;
use ferrite_core::{Clock, Secret};
use ferrite_db::{Db, Tx};

use crate::error::RepoError;
use crate::model::check_store_weight;
use crate::store::{Action, Actor, Entry, GitStore, GitStoreTable, Target, append};

/// Stores of one page of a list, of which [`GitStores::list`] returns all.
const PAGE_SIZE: i32 = 100;

/// The git stores of one installation, in its database.
#[derive(Clone, Debug)]
pub struct GitStores {
    db: Db,
    table: GitStoreTable,
    clock: Clock,
}

impl GitStores {
    /// Opens the database of repo-svc and brings its schema up to date.
    ///
    /// # Errors
    /// When the database cannot be reached, or its schema is newer than this program.
    pub async fn open(database_url: &Secret) -> Result<Self, StartError> {
        Ok(Self::over(super::open_database(database_url).await?))
    }

    /// Returns the stores in `db`, whose schema is up to date.
    pub(crate) fn over(db: Db) -> Self {
        Self { table: GitStoreTable::new(db.clone()), db, clock: Clock::system() }
    }

    /// Returns all stores, ordered by name.
    ///
    /// # Errors
    /// Those of the database.
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

    /// Adds a store, or sets the weight of one that is there if `weight` is given. Returns whether it was added.
    ///
    /// # Errors
    /// [`RepoError::Invalid`] for a weight out of range, [`RepoError::StoreLimit`] if there are as many as there may be, or those of the
    /// database.
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

    /// Sets the weight of a store.
    ///
    /// # Errors
    /// [`RepoError::Invalid`] for a weight out of range, [`RepoError::StoreNotFound`], or those of the database.
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

    /// Removes a store that has no repositories.
    ///
    /// # Errors
    /// [`RepoError::StoreNotFound`], [`RepoError::StoreNotEmpty`], or those of the database.
    pub async fn remove(&self, name: &StoreName) -> Result<(), RepoError> {
        let mut tx = self.db.begin().await?;
        self.table.delete(&mut tx, name).await?;
        record(&mut tx, Action::StoreRemove, name, None, self.clock.now_us()).await?;
        Ok(tx.commit().await?)
    }
}

/// Appends a change to the audit log.
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
