//! Webhooks and their sealed parts.
//!
//! Lock order of a transaction: the row of the repository, the row of the hook, its queues. Whoever
//! queues deliveries holds the rows of their hooks, so a deleted hook has no deliveries left.

#[cfg(test)]
mod tests;

use ferrite_core::Secret;
use ferrite_core::page::Page;
use ferrite_core::sealing::{SealError, Sealer};
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx, Value};
use ferrite_proto::id::HookId;
use ferrite_rpc::auth::AuthError;
use sqlx_macros::FromRow;

use super::events::{last_id, lock_repository};
use super::queues;
use crate::error::HookError;
use crate::model::{BranchFilter, ChatOptions, ContentType, HookEvents, HookType, NewHook, Owner, shown_authorization};
use crate::secrets;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, owner_kind, owner_id, type, url, shown_url, content_type, secret, previous_secret, previous_until_us, channel, \
             username, icon_url, color, events, branch_filter, authorization_header, shown_authorization, is_active, paused_reason, \
             failing_since_us, created_us, updated_us FROM hooks ",
            $rest
        )
    };
}

/// Guards the number of hooks of organizations and of the site. SQLite has one writer at a time
/// anyway.
const LOCK_COUNTS_POSTGRES: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.hooks'))) AS lock";
const LOCK_COUNTS_SQLITE: &str = "SELECT 1";
const DELETED_ORGANIZATION: &str = "SELECT organization_id FROM deleted_organizations WHERE organization_id = $1";
const INSERT: &str = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, secret, channel, username, \
     icon_url, color, events, is_active, created_us, updated_us, since_us, after_event_id, branch_filter, authorization_header, \
     shown_authorization) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $14, $15, $16, $17, $18) \
     RETURNING id";
const LIST: &str = select!("WHERE owner_kind = $1 AND owner_id = $2 ORDER BY id LIMIT $3 OFFSET $4");
const COUNT: &str = "SELECT COUNT(*) FROM hooks WHERE owner_kind = $1 AND owner_id = $2";
const FIND: &str = select!("WHERE id = $1");
const LOCK_POSTGRES: &str = select!("WHERE id = $1 FOR UPDATE");
const UPDATE: &str = "UPDATE hooks SET url = $2, shown_url = $3, content_type = $4, secret = $5, previous_secret = $6, \
     previous_until_us = $7, channel = $8, username = $9, icon_url = $10, color = $11, events = $12, is_active = $13, \
     paused_reason = $14, failing_since_us = $15, updated_us = $16, branch_filter = $17, authorization_header = $18, \
     shown_authorization = $19 WHERE id = $1";
const BEGIN: &str = "UPDATE hooks SET since_us = $2, after_event_id = $3 WHERE id = $1";
const DELETE: &str = "DELETE FROM hooks WHERE id = $1";

#[derive(Clone)]
pub(crate) struct HookTable {
    db: Db,
    sealer: Sealer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHook {
    pub(crate) id: HookId,
    pub(crate) owner: Owner,
    pub(crate) kind: HookType,
    /// The URL with its password hidden.
    pub(crate) shown_url: String,
    pub(crate) content_type: ContentType,
    pub(crate) options: ChatOptions,
    pub(crate) events: HookEvents,
    pub(crate) branch_filter: BranchFilter,
    /// The value of the header `Authorization` with its credentials hidden; empty for none.
    pub(crate) shown_authorization: String,
    pub(crate) is_active: bool,
    /// Why deliveries are paused, until the hook is edited or a test succeeds.
    pub(crate) paused_reason: Option<String>,
    /// When the first of the latest, uninterrupted failures happened.
    pub(crate) failing_since_us: Option<i64>,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
    sealed: SealedParts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SealedParts {
    url: Vec<u8>,
    secret: Option<Vec<u8>>,
    previous_secret: Option<Vec<u8>>,
    previous_until_us: i64,
    authorization: Option<Vec<u8>>,
}

impl StoredHook {
    /// Returns the URL with its password.
    pub(crate) fn url(&self, sealer: &Sealer) -> Result<Secret, SealError> {
        sealer.open(secrets::URL, &self.sealed.url)
    }

    pub(crate) fn set_url(&mut self, sealer: &Sealer, url: &str, shown_url: &str) -> Result<(), SealError> {
        self.sealed.url = sealer.seal(secrets::URL, url)?;
        shown_url.clone_into(&mut self.shown_url);
        Ok(())
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.sealed.secret.is_some()
    }

    pub(crate) fn secret(&self, sealer: &Sealer) -> Result<Option<Secret>, SealError> {
        self.sealed.secret.as_deref().map(|sealed| sealer.open(secrets::SECRET, sealed)).transpose()
    }

    /// Returns the previous secret while it still signs.
    pub(crate) fn previous_secret(&self, sealer: &Sealer, now_us: i64) -> Result<Option<Secret>, SealError> {
        let sealed = self.sealed.previous_secret.as_deref().filter(|_| now_us < self.sealed.previous_until_us);
        sealed.map(|sealed| sealer.open(secrets::SECRET, sealed)).transpose()
    }

    /// Replaces the secret. The old one keeps signing until `previous_until_us`.
    pub(crate) fn set_secret(
        &mut self,
        sealer: &Sealer,
        secret: &Secret,
        previous_until_us: i64,
    ) -> Result<(), SealError> {
        let sealed = sealer.seal(secrets::SECRET, secret.expose())?;
        self.sealed.previous_secret = self.sealed.secret.replace(sealed);
        self.sealed.previous_until_us = if self.sealed.previous_secret.is_some() { previous_until_us } else { 0 };
        Ok(())
    }

    /// Removes the current and the previous secret.
    pub(crate) fn remove_secret(&mut self) {
        self.sealed.secret = None;
        self.drop_previous_secret();
    }

    pub(crate) fn drop_previous_secret(&mut self) {
        self.sealed.previous_secret = None;
        self.sealed.previous_until_us = 0;
    }

    /// Returns the value of the header `Authorization`, if the hook has one.
    pub(crate) fn authorization(&self, sealer: &Sealer) -> Result<Option<Secret>, SealError> {
        self.sealed.authorization.as_deref().map(|sealed| sealer.open(secrets::AUTHORIZATION, sealed)).transpose()
    }

    pub(crate) fn set_authorization(&mut self, sealer: &Sealer, value: &Secret) -> Result<(), SealError> {
        self.sealed.authorization = Some(sealer.seal(secrets::AUTHORIZATION, value.expose())?);
        self.shown_authorization = shown_authorization(value.expose());
        Ok(())
    }

    pub(crate) fn remove_authorization(&mut self) {
        self.sealed.authorization = None;
        self.shown_authorization.clear();
    }

    /// Returns the sealed URL, secret, previous secret and value of the header `Authorization`. A
    /// missing one is empty.
    pub(crate) fn sealed_parts(&self) -> [&[u8]; 4] {
        let SealedParts { url, secret, previous_secret, authorization, .. } = &self.sealed;
        let [secret, previous, authorization] =
            [secret, previous_secret, authorization].map(|part| part.as_deref().unwrap_or_default());
        [url, secret, previous, authorization]
    }

    /// Returns whether deliveries are sent now. Those of an inactive or paused hook wait.
    pub(crate) fn is_running(&self) -> bool {
        self.is_active && self.paused_reason.is_none()
    }
}

#[derive(FromRow)]
struct HookRow {
    id: i64,
    owner_kind: i64,
    owner_id: i64,
    #[sqlx(rename = "type")]
    kind: String,
    url: Vec<u8>,
    shown_url: String,
    content_type: String,
    secret: Option<Vec<u8>>,
    previous_secret: Option<Vec<u8>>,
    previous_until_us: i64,
    channel: Option<String>,
    username: Option<String>,
    icon_url: Option<String>,
    color: Option<String>,
    events: String,
    branch_filter: String,
    authorization_header: Option<Vec<u8>>,
    shown_authorization: String,
    is_active: bool,
    paused_reason: Option<String>,
    failing_since_us: Option<i64>,
    created_us: i64,
    updated_us: i64,
}

impl TryFrom<HookRow> for StoredHook {
    type Error = HookError;

    fn try_from(row: HookRow) -> Result<Self, HookError> {
        let unreadable = |column| HookError::Unreadable { id: row.id, column };
        Ok(Self {
            id: HookId(row.id),
            owner: Owner::from_columns(row.owner_kind, row.owner_id).ok_or(unreadable("owner_kind"))?,
            kind: HookType::find(&row.kind).ok_or(unreadable("type"))?,
            content_type: ContentType::find(&row.content_type).ok_or(unreadable("content_type"))?,
            events: HookEvents::from_column(&row.events).ok_or(unreadable("events"))?,
            branch_filter: BranchFilter::from_column(row.branch_filter),
            shown_authorization: row.shown_authorization,
            shown_url: row.shown_url,
            options: ChatOptions {
                channel: row.channel,
                username: row.username,
                icon_url: row.icon_url,
                color: row.color,
            },
            is_active: row.is_active,
            paused_reason: row.paused_reason,
            failing_since_us: row.failing_since_us,
            created_us: row.created_us,
            updated_us: row.updated_us,
            sealed: SealedParts {
                url: row.url,
                secret: row.secret,
                previous_secret: row.previous_secret,
                previous_until_us: row.previous_until_us,
                authorization: row.authorization_header,
            },
        })
    }
}

/// Locks the numbers of hooks of organizations and of the site until the transaction ends.
pub(super) async fn lock_counts(tx: &mut Tx) -> Result<(), DbError> {
    let (_,): (i64,) = tx.one(tx.pick(LOCK_COUNTS_POSTGRES, LOCK_COUNTS_SQLITE), &[]).await?;
    Ok(())
}

impl HookTable {
    pub(crate) fn new(db: Db, sealer: Sealer) -> Self {
        Self { db, sealer }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Inserts a webhook unless its owner has reached `limit`. The hook receives events that happen
    /// after `now_us`: ids exclude events that were received before, and times exclude those
    /// received later.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        new: &NewHook,
        limit: i64,
        now_us: i64,
    ) -> Result<StoredHook, HookError> {
        self.lock_owner(tx, new.owner).await?;
        let (count,): (i64,) = tx.one(COUNT, &args![new.owner.kind(), new.owner.id()]).await?;
        if count >= limit {
            return Err(HookError::TooManyHooks { limit });
        }
        let seal = |place, secret: &Secret| self.sealer.seal(place, secret.expose());
        let mut hook = StoredHook {
            id: HookId(0),
            owner: new.owner,
            kind: new.kind,
            shown_url: new.url.shown().to_owned(),
            content_type: new.content_type,
            options: new.options.clone(),
            events: new.events,
            branch_filter: new.branch_filter.clone(),
            shown_authorization: new
                .authorization
                .as_ref()
                .map(|value| shown_authorization(value.expose()))
                .unwrap_or_default(),
            is_active: new.is_active,
            paused_reason: None,
            failing_since_us: None,
            created_us: now_us,
            updated_us: now_us,
            sealed: SealedParts {
                url: self.sealer.seal(secrets::URL, new.url.expose())?,
                secret: new.secret.as_ref().map(|secret| seal(secrets::SECRET, secret)).transpose()?,
                previous_secret: None,
                previous_until_us: 0,
                authorization: new
                    .authorization
                    .as_ref()
                    .map(|value| seal(secrets::AUTHORIZATION, value))
                    .transpose()?,
            },
        };
        let options = hook.options.clone();
        let args = args![
            hook.owner.kind(),
            hook.owner.id(),
            hook.kind.as_str(),
            hook.sealed.url.clone(),
            hook.shown_url.as_str(),
            hook.content_type.as_str(),
            Value::Bytes(hook.sealed.secret.clone()),
            options.channel,
            options.username,
            options.icon_url,
            options.color,
            hook.events.to_column(),
            hook.is_active,
            now_us,
            last_id(tx).await?,
            hook.branch_filter.as_str(),
            Value::Bytes(hook.sealed.authorization.clone()),
            hook.shown_authorization.as_str(),
        ];
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        hook.id = HookId(id);
        Ok(hook)
    }

    /// Locks the number of an owner's hooks until the transaction ends. Fails if the owner was
    /// deleted.
    async fn lock_owner(&self, tx: &mut Tx, owner: Owner) -> Result<(), HookError> {
        match owner {
            // Orders this transaction before or after the deletion of the repository.
            Owner::Repository(id) => {
                let is_deleted = lock_repository(tx, id).await?;
                if is_deleted { Err(HookError::RepositoryDeleted) } else { Ok(()) }
            }
            Owner::Organization(id) => {
                lock_counts(tx).await?;
                let deleted: Option<(i64,)> = tx.optional(DELETED_ORGANIZATION, &args![id]).await?;
                if deleted.is_some() { Err(AuthError::OrganizationNotFound.into()) } else { Ok(()) }
            }
            Owner::Site => Ok(lock_counts(tx).await?),
        }
    }

    /// Returns a page of an owner's webhooks by id, and their total number.
    pub(crate) async fn list(&self, owner: Owner, page: Page) -> Result<(Vec<StoredHook>, i64), HookError> {
        let rows: Vec<HookRow> =
            self.db.all(LIST, &args![owner.kind(), owner.id(), page.size(), page.offset()]).await?;
        let (total,): (i64,) = self.db.one(COUNT, &args![owner.kind(), owner.id()]).await?;
        let hooks: Result<Vec<_>, _> = rows.into_iter().map(StoredHook::try_from).collect();
        Ok((hooks?, total))
    }

    /// Returns a webhook of any owner.
    pub(crate) async fn hook(&self, id: HookId) -> Result<Option<StoredHook>, HookError> {
        let row: Option<HookRow> = self.db.optional(FIND, &args![id]).await?;
        row.map(StoredHook::try_from).transpose()
    }

    /// Returns a webhook of this owner. Fails with [`HookError::HookNotFound`] for another owner's
    /// hook as well.
    pub(crate) async fn find(&self, owner: Owner, id: HookId) -> Result<StoredHook, HookError> {
        self.hook(id).await?.filter(|hook| hook.owner == owner).ok_or(HookError::HookNotFound)
    }

    /// Like [`HookTable::find`], but also locks the row until the transaction ends.
    pub(crate) async fn lock(&self, tx: &mut Tx, owner: Owner, id: HookId) -> Result<StoredHook, HookError> {
        let row: Option<HookRow> = tx.optional(tx.pick(LOCK_POSTGRES, FIND), &args![id]).await?;
        let hook = row.map(StoredHook::try_from).transpose()?;
        hook.filter(|hook| hook.owner == owner).ok_or(HookError::HookNotFound)
    }

    /// Writes a webhook that the same transaction read with [`HookTable::lock`].
    pub(crate) async fn update(&self, tx: &mut Tx, hook: &StoredHook) -> Result<(), DbError> {
        let (options, sealed) = (hook.options.clone(), hook.sealed.clone());
        let args = args![
            hook.id,
            sealed.url,
            hook.shown_url.as_str(),
            hook.content_type.as_str(),
            Value::Bytes(sealed.secret),
            Value::Bytes(sealed.previous_secret),
            sealed.previous_until_us,
            options.channel,
            options.username,
            options.icon_url,
            options.color,
            hook.events.to_column(),
            hook.is_active,
            hook.paused_reason.clone(),
            hook.failing_since_us,
            hook.updated_us,
            hook.branch_filter.as_str(),
            Value::Bytes(sealed.authorization),
            hook.shown_authorization.as_str(),
        ];
        tx.execute(UPDATE, &args).await.map(drop)
    }

    /// Makes an activated webhook start with future events, like a new one. Its row must be locked.
    pub(crate) async fn begin_at(&self, tx: &mut Tx, id: HookId, now_us: i64) -> Result<(), DbError> {
        let last_id = last_id(tx).await?;
        tx.execute(BEGIN, &args![id, now_us, last_id]).await.map(drop)
    }

    /// Deletes a webhook, cancels its waiting deliveries, and returns it as it was.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        owner: Owner,
        id: HookId,
        now_us: i64,
    ) -> Result<StoredHook, HookError> {
        let hook = self.lock(tx, owner, id).await?;
        tx.execute(DELETE, &args![id]).await?;
        queues::cancel(tx, id, now_us).await?;
        Ok(hook)
    }
}
