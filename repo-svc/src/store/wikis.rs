//! Wikis: their settings, which are columns of the repository, and their ids on the store.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::RepositoryId;

use super::repositories::RepositoryTable;
use super::sql::{Locking, locking};
use crate::model::WikiSettings;

const LOCK_SETTINGS: Locking = locking!(
    "SELECT is_wiki_enabled, is_wiki_public, is_external_wiki, external_wiki_url \
     FROM repositories WHERE id = $1 AND state = 'ready'",
    " FOR NO KEY UPDATE"
);
const UPDATE_SETTINGS: &str = "UPDATE repositories SET is_wiki_enabled = $2, is_wiki_public = $3, is_external_wiki = $4, \
     external_wiki_url = $5, updated_us = CASE WHEN updated_us < $6 THEN $6 ELSE updated_us END WHERE id = $1";
const FIND: &str = "SELECT wiki_id, is_made FROM wikis WHERE repository_id = $1";
const ADD: &str = "INSERT INTO wikis (repository_id, wiki_id, is_made, created_us) VALUES ($1, $2, $3, $4)";
const SET_MADE: &str = "UPDATE wikis SET is_made = $2 WHERE repository_id = $1";
/// Takes an id that no repository gets. SQLite's sequence has a row, because a repository was
/// registered before.
const TAKE_ID_POSTGRES: &str = "SELECT nextval(pg_get_serial_sequence('repositories', 'id'))";
const TAKE_ID_SQLITE: &str = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'repositories' RETURNING seq";

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Wiki {
    /// The wiki's id on the store, from the sequence of repositories.
    #[sqlx(rename = "wiki_id")]
    pub(crate) id: i64,
    /// False until it exists on the store.
    pub(crate) is_made: bool,
}

impl RepositoryTable {
    /// Returns the wiki settings and locks the repository like [`RepositoryTable::lock`]; `None` if
    /// it was deleted.
    pub(crate) async fn lock_wiki_settings(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
    ) -> Result<Option<WikiSettings>, DbError> {
        let row: Option<(bool, bool, bool, String)> = tx.optional(LOCK_SETTINGS.sql(tx), &args![id]).await?;
        Ok(row.map(|(is_enabled, is_public, is_external, url)| WikiSettings {
            is_enabled,
            is_public,
            is_external,
            url,
        }))
    }

    /// Replaces the wiki settings of a locked repository and updates its time of last update.
    pub(crate) async fn set_wiki_settings(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        settings: &WikiSettings,
        now_us: i64,
    ) -> Result<(), DbError> {
        let WikiSettings { is_enabled, is_public, is_external, url } = settings;
        let args = args![id, *is_enabled, *is_public, *is_external, url.as_str(), now_us];
        tx.execute(UPDATE_SETTINGS, &args).await.map(drop)
    }

    /// Returns `None` if there is no wiki yet.
    pub(crate) async fn find_wiki(&self, id: RepositoryId) -> Result<Option<Wiki>, DbError> {
        self.db.optional(FIND, &args![id]).await
    }

    /// Returns the wiki's id; `None` if there is no wiki. The repository must be locked.
    pub(crate) async fn wiki_id(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<i64>, DbError> {
        let row: Option<Wiki> = tx.optional(FIND, &args![id]).await?;
        Ok(row.map(|wiki| wiki.id))
    }

    /// Returns the wiki, and registers it if there is none; `None` if the repository was deleted.
    pub(crate) async fn register_wiki(&self, id: RepositoryId, now_us: i64) -> Result<Option<Wiki>, DbError> {
        let mut tx = self.db.begin().await?;
        if self.lock(&mut tx, id).await?.is_none() {
            return Ok(None);
        }
        if let Some(wiki) = tx.optional(FIND, &args![id]).await? {
            return Ok(Some(wiki));
        }
        let wiki = Wiki { id: take_wiki_id(&mut tx).await?, is_made: false };
        add_wiki(&mut tx, id, wiki, now_us).await?;
        tx.commit().await?;
        Ok(Some(wiki))
    }

    /// Records that the wiki exists on the store.
    pub(crate) async fn set_wiki_made(&self, id: RepositoryId) -> Result<(), DbError> {
        self.db.execute(SET_MADE, &args![id, true]).await.map(drop)
    }
}

/// Takes an id for a wiki. A repository must already be registered.
pub(crate) async fn take_wiki_id(tx: &mut Tx) -> Result<i64, DbError> {
    let (id,): (i64,) = tx.one(tx.pick(TAKE_ID_POSTGRES, TAKE_ID_SQLITE), &[]).await?;
    Ok(id)
}

/// Adds a wiki to a repository that has none.
pub(crate) async fn add_wiki(tx: &mut Tx, repository: RepositoryId, wiki: Wiki, now_us: i64) -> Result<(), DbError> {
    tx.execute(ADD, &args![repository, wiki.id, wiki.is_made, now_us]).await.map(drop)
}
