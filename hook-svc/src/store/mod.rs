//! SQL and rows of webhooks; the only module that names these tables.
//!
//! Not here: validation (`model`).

#[cfg(test)]
mod tests;

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Tx, Value};
use ferrite_kit::page::Page;
use ferrite_proto::id::{HookId, RepositoryId};
use sqlx::FromRow;

use crate::error::HookError;
use crate::model::{ChatOptions, ContentType, Hook, HookEvents, HookType, NewHook};

/// Registers the repository and locks its row until the transaction ends, so that its deletion comes either before or after.
const REGISTER_AND_LOCK: &str = "INSERT INTO hook_repositories (repository_id, is_deleted) VALUES ($1, FALSE) \
     ON CONFLICT (repository_id) DO UPDATE SET is_deleted = hook_repositories.is_deleted RETURNING is_deleted";
const MARK_DELETED: &str = "INSERT INTO hook_repositories (repository_id, is_deleted) VALUES ($1, TRUE) \
     ON CONFLICT (repository_id) DO UPDATE SET is_deleted = TRUE";
const DELETE_ALL: &str = "DELETE FROM hooks WHERE repository_id = $1";
const INSERT: &str = "INSERT INTO hooks (repository_id, type, url, content_type, secret, channel, username, icon_url, color, \
     events, is_active, created_us, updated_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12) RETURNING id";
const LIST: &str = "SELECT id, repository_id, type, url, content_type, channel, username, icon_url, color, events, is_active, \
     created_us, updated_us FROM hooks WHERE repository_id = $1 ORDER BY id LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM hooks WHERE repository_id = $1";

/// Store of webhooks.
#[derive(Clone, Debug)]
pub(crate) struct HookStore {
    db: Db,
}

#[derive(FromRow)]
struct HookRow {
    id: i64,
    repository_id: i64,
    #[sqlx(rename = "type")]
    kind: String,
    url: String,
    content_type: String,
    channel: Option<String>,
    username: Option<String>,
    icon_url: Option<String>,
    color: Option<String>,
    events: String,
    is_active: bool,
    created_us: i64,
    updated_us: i64,
}

impl TryFrom<HookRow> for Hook {
    type Error = HookError;

    fn try_from(row: HookRow) -> Result<Self, HookError> {
        let unreadable = |column| HookError::Unreadable { id: row.id, column };
        Ok(Self {
            id: HookId(row.id),
            repository: RepositoryId(row.repository_id),
            kind: HookType::find(&row.kind).ok_or(unreadable("type"))?,
            content_type: ContentType::find(&row.content_type).ok_or(unreadable("content_type"))?,
            events: HookEvents::from_column(&row.events).ok_or(unreadable("events"))?,
            url: row.url,
            options: ChatOptions {
                channel: row.channel,
                username: row.username,
                icon_url: row.icon_url,
                color: row.color,
            },
            is_active: row.is_active,
            created_us: row.created_us,
            updated_us: row.updated_us,
        })
    }
}

impl HookStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the database, for transactions.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Inserts a webhook; `None` if the repository was deleted.
    pub(crate) async fn insert(&self, tx: &mut Tx, new: &NewHook, now_us: i64) -> Result<Option<Hook>, DbError> {
        let (is_deleted,): (bool,) = tx.one(REGISTER_AND_LOCK, &args![new.repository]).await?;
        if is_deleted {
            return Ok(None);
        }
        let options = new.options.clone();
        let secret = new.secret.as_ref().map(|secret| secret.expose().as_bytes().to_vec());
        let args = args![
            new.repository,
            new.kind.as_str(),
            new.url.as_str(),
            new.content_type.as_str(),
            Value::Bytes(secret),
            options.channel,
            options.username,
            options.icon_url,
            options.color,
            new.events.to_column(),
            new.is_active,
            now_us,
        ];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        Ok(Some(Hook {
            id: HookId(id),
            repository: new.repository,
            kind: new.kind,
            url: new.url.as_str().to_owned(),
            content_type: new.content_type,
            options: new.options.clone(),
            events: new.events,
            is_active: new.is_active,
            created_us: now_us,
            updated_us: now_us,
        }))
    }

    /// Returns a page of the repository's webhooks, ordered by id, and their total number.
    pub(crate) async fn list(&self, repository: RepositoryId, page: Page) -> Result<(Vec<Hook>, i64), HookError> {
        let rows: Vec<HookRow> = self.db.all(LIST, &args![repository, page.size(), page.offset()]).await?;
        let (total,): (i64,) = self.db.one(COUNT, &args![repository]).await?;
        let hooks: Result<Vec<_>, _> = rows.into_iter().map(Hook::try_from).collect();
        Ok((hooks?, total))
    }

    /// Deletes the webhooks of a deleted repository and marks it as deleted for good, because ids are never reused. Returns the
    /// number of deleted webhooks.
    pub(crate) async fn purge(&self, tx: &mut Tx, repository: RepositoryId) -> Result<u64, DbError> {
        // The mark first: its lock waits for earlier writers, whose webhooks are then deleted, and later writers find the mark.
        tx.execute(MARK_DELETED, &args![repository]).await?;
        tx.execute(DELETE_ALL, &args![repository]).await
    }
}
