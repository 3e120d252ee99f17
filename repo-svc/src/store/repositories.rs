//! Single repositories: creation, deletion and rows.

pub(super) mod packed;

use std::sync::Arc;

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, QueryCache, Tx, Value};
use ferrite_proto::Permission;
use ferrite_proto::id::{OrganizationId, RepositoryId, UserId};

use super::collaborators::add_creator;
use super::key_fingerprints::release_repository_keys;
use super::quotas::{self, OwnerLimits, UsageChanges};
use super::repository_links;
use super::search::SearchStatistics;
use super::sql::{Locking, level_from_number, level_from_str, locking, or_missing};
use super::stars_and_watches;
use super::visibility;
use crate::access::{RepositoryAccess, Unit, Viewer};
use crate::error::RepoError;
use crate::model::{Description, PullSettings, RepoName, lookup_key};

pub(super) const COLUMNS: &str = "SELECT r.id, r.name, r.description, r.website, r.is_private, r.is_mirror, r.is_empty, r.language, r.is_issues_enabled, \
     r.is_external_tracker, r.external_tracker_url, r.tracker_url_format, r.tracker_issue_style, r.is_archived, r.is_wiki_enabled, \
     r.is_wiki_public, r.is_external_wiki, r.external_wiki_url, r.topics, r.parent_id, r.mirror_interval_secs, r.mirror_last_sync_us, \
     r.mirror_next_sync_us, r.mirror_error, COALESCE(r.new_default_branch, r.default_branch) AS default_branch, \
     r.size_bytes, r.star_count, r.fork_count, r.watcher_count, r.open_issue_count, r.open_pull_count, r.release_count, r.archived_us, \
     r.has_pulls, r.allow_merge, r.allow_rebase, r.allow_rebase_merge, r.allow_squash, r.allow_fast_forward_only, \
     r.allow_rebase_update, r.delete_branch_after_merge, r.detects_manual_merges, r.allow_manual_merge, \
     r.default_merge_style, \
     r.original_url, r.created_us, r.updated_us, r.owner_id, u.name AS owner_name, u.full_name AS owner_full_name, \
     u.email AS owner_email, u.kind AS owner_kind, u.is_admin AS owner_is_admin, u.visibility AS owner_visibility, \
     p.store, p.epoch, c.permission AS collaborator, ";
/// The tables of a query; the viewer's id follows.
pub(super) const FROM: &str = " FROM repositories r JOIN users u ON u.id = r.owner_id JOIN placements p ON p.repository_id = r.id \
     LEFT JOIN collaborators c ON c.repository_id = r.id AND c.user_id = ";
pub(super) const READY: &str = " WHERE r.state = 'ready'";
const ADD_TEXT: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) VALUES ($1, $2, $3)";
const REMOVE_TEXT: &str = "DELETE FROM repositories_text WHERE rowid = $1";
/// Serializes changes to rows of a repository, and prevents its deletion.
const LOCK: Locking =
    locking!("SELECT owner_id FROM repositories WHERE id = $1 AND state = 'ready'", " FOR NO KEY UPDATE");
/// Serializes creations by one owner, so that the limit holds. `FOR UPDATE` would deadlock with a
/// transaction that refers to the account, such as one finishing a repository of the same name, for
/// which this one waits.
const LOCK_OWNER: Locking = locking!("SELECT repository_limit, kind FROM users WHERE id = $1", " FOR NO KEY UPDATE");
const INSERT: &str = "INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, \
     is_mirror, is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     VALUES ($1, $2, $3, $4, $5, '', 'creating', $6, $7, $8, $9, $10, 0, 0, 0, 1, 0, 0, 0, $11, $11) \
     ON CONFLICT DO NOTHING RETURNING id";
const INSERT_PLACEMENT: &str = "INSERT INTO placements (repository_id, store, epoch) VALUES ($1, $2, $3)";
const STATE: &str = "SELECT state FROM repositories WHERE owner_id = $1 AND name_key = $2";
/// If the event about the first commit arrived earlier, its size is newer: keep it.
const FINISH: &str = "UPDATE repositories SET state = 'ready', \
     size_bytes = CASE WHEN refs_number = 0 THEN $2 ELSE size_bytes END, \
     is_empty = CASE WHEN refs_number = 0 THEN $3 ELSE is_empty END WHERE id = $1 AND state = 'creating' \
     RETURNING owner_id, size_bytes";
const IS_CREATING: &str = "SELECT state FROM repositories WHERE id = $1 AND state = 'creating'";
const DELETE_UNFINISHED: &str = "DELETE FROM repositories WHERE id = $1 AND state = 'creating'";
/// Sets a key that no name can have.
const RELEASE_NAME: &str =
    "UPDATE repositories SET name_key = '!' || CAST(id AS TEXT) WHERE id = $1 AND state = 'creating'";
/// Excludes running imports, which may take hours.
const UNFINISHED: &str = "SELECT r.id, p.store FROM repositories r JOIN placements p ON p.repository_id = r.id \
     WHERE r.state = 'creating' AND r.created_us < $1 AND NOT EXISTS \
     (SELECT 1 FROM migrations m WHERE m.repository_id = r.id AND m.finished_us = 0) ORDER BY r.id LIMIT 100";
const DELETE: &str = "DELETE FROM repositories WHERE id = $1 AND state = 'ready'";
pub(super) const FULL_NAME: &str =
    "SELECT u.name, r.name FROM repositories r JOIN users u ON u.id = r.owner_id WHERE r.id = $1";

/// Rows cached until the database changes, each for one viewer: about a kilobyte each.
const MAX_CACHED_REPOSITORIES: u64 = 10_000;
/// Cached pages of lists.
const MAX_CACHED_PAGES: u64 = 256;
/// Epoch of a repository's first placement.
const FIRST_EPOCH: i64 = 1;

/// A repository with its owner, its placement, and the roles of one viewer.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Repository {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) is_private: bool,
    pub(crate) is_mirror: bool,
    pub(crate) is_empty: bool,
    /// The language with most bytes; empty if there is none.
    pub(crate) language: String,
    is_issues_enabled: bool,
    pub(crate) is_external_tracker: bool,
    pub(crate) external_tracker_url: String,
    pub(crate) tracker_url_format: String,
    pub(crate) tracker_issue_style: String,
    pub(crate) is_archived: bool,
    is_wiki_enabled: bool,
    pub(crate) is_wiki_public: bool,
    pub(crate) is_external_wiki: bool,
    pub(crate) external_wiki_url: String,
    /// Comma-separated.
    pub(crate) topics: String,
    /// The parent of a fork, if it still exists.
    pub(crate) parent_id: Option<i64>,
    pub(crate) mirror_interval_secs: i64,
    /// Zero before the first sync.
    pub(crate) mirror_last_sync_us: i64,
    pub(crate) mirror_next_sync_us: i64,
    /// Empty if the last sync succeeded.
    pub(crate) mirror_error: String,
    /// The committed one, even if the git store has not moved HEAD yet.
    pub(crate) default_branch: String,
    pub(crate) size_bytes: i64,
    pub(crate) star_count: i64,
    pub(crate) fork_count: i64,
    pub(crate) watcher_count: i64,
    pub(crate) open_issue_count: i64,
    pub(crate) open_pull_count: i64,
    /// Published releases.
    pub(crate) release_count: i64,
    /// Zero if it is not archived, or if the time is not known.
    pub(crate) archived_us: i64,
    #[sqlx(flatten)]
    pub(crate) pulls: PullSettings,
    /// The address it was imported from, without credentials; may be empty.
    pub(crate) original_url: String,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
    pub(crate) owner_id: i64,
    pub(crate) owner_name: String,
    pub(crate) owner_full_name: String,
    pub(crate) owner_email: String,
    pub(crate) owner_kind: String,
    pub(crate) owner_is_admin: bool,
    pub(super) owner_visibility: i64,
    pub(crate) store: String,
    pub(crate) epoch: i64,
    collaborator: Option<String>,
    pub(super) is_parent_hidden: bool,
    team_level: Option<i64>,
    is_member: bool,
    /// The parent of a fork, read for the same viewer. Only set by
    /// [`RepositoryTable::find_with_parent`].
    #[sqlx(skip)]
    pub(crate) parent: Option<Arc<Repository>>,
}

impl Repository {
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.id)
    }

    /// The facts that decide the access of the viewer the row was read for.
    pub(crate) fn access(&self) -> RepositoryAccess {
        RepositoryAccess {
            repository: self.id(),
            owner: UserId(self.owner_id),
            is_private: self.is_private,
            owner_visibility: self.owner_visibility(),
            is_member: self.is_member,
            collaborator: level_from_str(self.collaborator.as_deref()),
            team: level_from_number(self.team_level),
            is_parent_hidden: self.is_parent_hidden,
        }
    }

    /// Whether the user owns the repository, collaborates on it or has a team for it. The row must
    /// have been read for this user.
    pub(super) fn has_role(&self, user: UserId) -> bool {
        self.owner_id == user.0 || self.collaborator.is_some() || self.team_level.is_some()
    }

    /// Like [`Self::access`], but for the wiki. Everybody can read a public wiki.
    pub(crate) fn wiki_access(&self) -> RepositoryAccess {
        RepositoryAccess { is_private: self.is_private && !self.is_wiki_public, ..self.access() }
    }

    /// The owner, if it is an organization.
    pub(crate) fn organization(&self) -> Option<OrganizationId> {
        (self.owner_kind == "organization").then_some(OrganizationId(self.owner_id))
    }

    /// Whether the issue tracker is enabled and not external.
    pub(crate) fn has_issues(&self) -> bool {
        self.is_issues_enabled && !self.is_external_tracker
    }

    /// Whether the wiki is enabled and not external.
    pub(crate) fn has_wiki(&self) -> bool {
        self.is_wiki_enabled && !self.is_external_wiki
    }

    /// The level on content and settings. The row must have been read for `viewer`.
    pub(crate) fn level(&self, viewer: &Viewer) -> Permission {
        self.access().level(viewer, Unit::Repository)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RepositoryKey {
    Id(RepositoryId),
    /// Case-folded names.
    Name {
        owner: String,
        name: String,
    },
}

impl RepositoryKey {
    /// Returns `None` if no repository can have this name.
    pub(crate) fn of(owner: &str, name: &str) -> Option<Self> {
        Some(Self::Name { owner: lookup_key(owner)?, name: lookup_key(name)? })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NewRepository {
    pub(crate) creator: UserId,
    pub(crate) name: RepoName,
    pub(crate) description: Description,
    pub(crate) is_private: bool,
    pub(crate) default_branch: String,
    pub(crate) store: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CreatedOnDisk {
    pub(crate) size_bytes: i64,
    pub(crate) is_empty: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RepositoryTable {
    pub(super) db: Db,
    /// Rows by repository and the viewer's account.
    pub(super) cache: RowCache,
    /// The same, with the parents of forks.
    pub(super) with_parent: RowCache,
    /// The same, by former name.
    pub(super) redirected: RowCache,
    /// Pages of lists and their totals, by statement.
    pub(super) pages: QueryCache<(String, Vec<Value>), (Vec<Repository>, i64)>,
    /// Statistics about all repositories, refreshed from time to time.
    pub(super) search_statistics: SearchStatistics,
}

type RowCache = QueryCache<(RepositoryKey, CachedViewer), Option<Repository>>;

/// The part of a viewer that rows depend on: the account, and whether the viewer is anonymous. The
/// token does not matter.
pub(super) type CachedViewer = (Option<UserId>, bool);

/// Begins a query of finished repositories, read for `viewer`.
pub(super) fn rows(viewer: &Viewer) -> Query {
    let mut query = Query::new("");
    columns(&mut query, FROM, viewer);
    query.push(READY);
    query
}

pub(super) fn columns(query: &mut Query, from: &'static str, viewer: &Viewer) {
    query.push(COLUMNS);
    visibility::is_parent_hidden(query, viewer);
    query.push(" AS is_parent_hidden, ");
    roles(query, from, viewer);
}

/// Adds the last columns and the tables.
pub(super) fn roles(query: &mut Query, from: &'static str, viewer: &Viewer) {
    visibility::team_level(query, viewer);
    query.push(" AS team_level, ");
    visibility::is_member(query, viewer);
    query.push(" AS is_member").push(from).bind(viewer.user().map_or(0, |user| user.0));
}

pub(super) fn by_key(query: &mut Query, key: &RepositoryKey) {
    match key {
        RepositoryKey::Id(id) => query.push(" AND r.id = ").bind(*id),
        RepositoryKey::Name { owner, name } => {
            query.push(" AND u.name_key = ").bind(owner).push(" AND r.name_key = ").bind(name)
        }
    };
}

/// Locks an account against other creations of repositories until the transaction ends. Returns the
/// kind of the account. Fails if it has reached its own limits, or else `limits`.
pub(super) async fn lock_owner(tx: &mut Tx, owner: UserId, limits: OwnerLimits) -> Result<String, RepoError> {
    let account: Option<(Option<i64>, String)> = tx.optional(LOCK_OWNER.sql(tx), &args![owner]).await?;
    let (own_limit, kind) = account.ok_or(RepoError::UserNotFound)?;
    if quotas::effective(own_limit, limits.repositories).is_some() {
        let (count,): (i64,) = tx.one(quotas::COUNT_OWNED, &args![owner]).await?;
        quotas::check_count(own_limit, limits, count)?;
    }
    quotas::find_in(tx, owner).await?.check_bytes(limits, 0)?;
    Ok(kind)
}

impl RepositoryTable {
    pub(crate) fn new(db: Db) -> Self {
        let [cache, with_parent, redirected] = ["repositories", "repositories_with_parents", "redirected_repositories"]
            .map(|name| QueryCache::new(name, MAX_CACHED_REPOSITORIES));
        let pages = QueryCache::new("repository_pages", MAX_CACHED_PAGES);
        Self { db, cache, with_parent, redirected, pages, search_statistics: SearchStatistics::new() }
    }

    /// Returns the repositories that exist, ordered by id. The viewer may not be able to see them.
    pub(crate) async fn find_many(&self, ids: &[i64], viewer: &Viewer) -> Result<Vec<Repository>, DbError> {
        let mut query = rows(viewer);
        query.push(" AND r.id IN ").bind_list(ids.iter().copied()).push(" ORDER BY r.id");
        self.db.all(query.sql(), query.args()).await
    }

    /// Locks a repository and the rows that belong to it until the transaction ends. Returns the
    /// owner; `None` if the repository was deleted.
    pub(crate) async fn lock(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<UserId>, DbError> {
        let owner: Option<(i64,)> = tx.optional(LOCK.sql(tx), &args![id]).await?;
        Ok(owner.map(|(owner,)| UserId(owner)))
    }

    /// Adds a repository to SQLite's full-text table. PostgreSQL's indexes need no such step.
    pub(super) async fn index(
        &self,
        tx: &mut Tx,
        id: i64,
        name_key: &str,
        description_key: &str,
    ) -> Result<(), DbError> {
        if tx.pick(false, true) {
            tx.execute(ADD_TEXT, &args![id, name_key, description_key]).await?;
        }
        Ok(())
    }

    pub(super) async fn unindex(&self, tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        if tx.pick(false, true) {
            tx.execute(REMOVE_TEXT, &args![id]).await?;
        }
        Ok(())
    }

    /// Registers a repository and its placement before it is created on the store. The owner
    /// watches it, or the creator if the owner is an organization. Returns its id and epoch; `None`
    /// if the owner already has a repository with this name. Fails if the owner has reached its own
    /// limits, or else `limits`.
    pub(crate) async fn insert(
        &self,
        owner: UserId,
        new: &NewRepository,
        limits: OwnerLimits,
        now_us: i64,
    ) -> Result<Option<(RepositoryId, i64)>, RepoError> {
        let mut tx = self.db.begin().await?;
        let inserted = self.insert_in(&mut tx, owner, new, limits, now_us).await?;
        tx.commit().await?;
        Ok(inserted)
    }

    /// Like [`RepositoryTable::insert`], in the caller's transaction.
    pub(crate) async fn insert_in(
        &self,
        tx: &mut Tx,
        owner: UserId,
        new: &NewRepository,
        limits: OwnerLimits,
        now_us: i64,
    ) -> Result<Option<(RepositoryId, i64)>, RepoError> {
        let kind = lock_owner(tx, owner, limits).await?;
        let args = args![
            owner,
            new.name.as_str(),
            new.name.key(),
            new.description.as_str(),
            new.description.key(),
            new.is_private,
            false,
            true,
            true,
            new.default_branch.as_str(),
            now_us,
        ];
        let Some((id,)) = tx.optional::<(i64,)>(INSERT, &args).await? else { return Ok(None) };
        let placed = tx.execute(INSERT_PLACEMENT, &args![id, new.store.as_str(), FIRST_EPOCH]).await;
        // If the store was removed in the meantime, a retry gets another one.
        placed.map_err(or_missing(RepoError::StoreUnavailable))?;
        self.index(tx, id, &new.name.key(), &new.description.key()).await?;
        let watcher = if kind == "user" { owner } else { new.creator };
        stars_and_watches::watch_new(tx, RepositoryId(id), watcher, now_us).await?;
        if kind != "user" {
            add_creator(tx, RepositoryId(id), owner, new.creator, now_us).await?;
        }
        Ok(Some((RepositoryId(id), FIRST_EPOCH)))
    }

    /// Whether a repository with this name is being created.
    pub(crate) async fn is_name_in_creation(&self, owner: UserId, name: &RepoName) -> Result<bool, DbError> {
        let row: Option<(String,)> = self.db.optional(STATE, &args![owner, name.key()]).await?;
        Ok(row.is_some_and(|(state,)| state == "creating"))
    }

    /// Marks a repository as finished, which makes it visible, and counts its size. Returns it,
    /// read for `viewer`; `None` if it was removed in the meantime.
    pub(crate) async fn finish(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        finished: CreatedOnDisk,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let args = args![id, finished.size_bytes, finished.is_empty];
        let Some((owner, bytes)) = tx.optional::<(i64, i64)>(FINISH, &args).await? else { return Ok(None) };
        let mut usage = UsageChanges::default();
        usage.add(UserId(owner), bytes);
        usage.write(tx).await?;
        self.find_in(tx, id, viewer).await
    }

    pub(crate) async fn find_in(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let mut query = rows(viewer);
        by_key(&mut query, &RepositoryKey::Id(id));
        tx.optional(query.sql(), query.args()).await
    }

    /// Whether a repository is registered but unfinished.
    pub(crate) async fn is_creating(&self, id: RepositoryId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(String,)>(IS_CREATING, &args![id]).await?.is_some())
    }

    /// Does nothing to a finished repository.
    pub(crate) async fn delete_unfinished(&self, id: RepositoryId) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        self.delete_unfinished_in(&mut tx, id).await?;
        tx.commit().await
    }

    /// Like [`RepositoryTable::delete_unfinished`], in the caller's transaction.
    pub(crate) async fn delete_unfinished_in(&self, tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        if tx.execute(DELETE_UNFINISHED, &args![id]).await? == 1 {
            self.unindex(tx, id).await?;
        }
        Ok(())
    }

    /// Frees the name of an unfinished repository that cannot be deleted on the store now. The
    /// sweeper deletes it later.
    pub(crate) async fn release_name(&self, id: RepositoryId) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        self.release_name_in(&mut tx, id).await?;
        tx.commit().await
    }

    /// Like [`RepositoryTable::release_name`], in the caller's transaction.
    pub(crate) async fn release_name_in(&self, tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        if tx.execute(RELEASE_NAME, &args![id]).await? == 1 {
            self.unindex(tx, id).await?;
        }
        Ok(())
    }

    /// Returns up to 100 repositories that were begun before a time and are unfinished, each with
    /// its git store.
    pub(crate) async fn unfinished(&self, before_us: i64) -> Result<Vec<(RepositoryId, String)>, DbError> {
        let rows: Vec<(i64, String)> = self.db.all(UNFINISHED, &args![before_us]).await?;
        Ok(rows.into_iter().map(|(id, store)| (RepositoryId(id), store)).collect())
    }

    /// Deletes a repository and all its rows, in the caller's transaction. Returns `false` if it
    /// was already deleted.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: RepositoryId) -> Result<bool, DbError> {
        repository_links::lock_parent(tx, id).await?;
        let Some(owner) = self.lock(tx, id).await? else { return Ok(false) };
        let mut usage = UsageChanges::default();
        usage.add(owner, -quotas::stored_bytes(tx, id).await?);
        release_repository_keys(tx, id).await?;
        repository_links::release_name(tx, id).await?;
        repository_links::remove_fork(tx, id).await?;
        self.unindex(tx, id).await?;
        let deleted = tx.execute(DELETE, &args![id]).await?;
        usage.write(tx).await?;
        Ok(deleted == 1)
    }

    /// Returns `owner/name`.
    pub(crate) async fn full_name(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<String>, DbError> {
        let row: Option<(String, String)> = tx.optional(FULL_NAME, &args![id]).await?;
        Ok(row.map(|(owner, name)| format!("{owner}/{name}")))
    }
}
