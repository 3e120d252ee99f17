use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, QueryCache, Tx};
use ferrite_proto::Permission;
use ferrite_proto::events::{IssueChanged, RefsUpdated, SizeChanged};
use ferrite_proto::id::{RepositoryId, UserId};

use super::collaborators::stored_level;
use super::{level_of, release_repository_keys};
use crate::RepoError;
use crate::access::{self, Facts, Unit, Viewer};
use crate::model::{Description, RepoName, lookup_key};

const COLUMNS: &str = "SELECT r.id, r.name, r.description, r.website, r.is_private, r.is_mirror, r.is_empty, r.is_issues_enabled, \
     r.default_branch, r.size_bytes, r.star_count, r.fork_count, r.watcher_count, r.open_issue_count, r.created_us, r.updated_us, \
     r.owner_id, u.name AS owner_name, u.full_name AS owner_full_name, u.email AS owner_email, u.kind AS owner_kind, \
     u.is_admin AS owner_is_admin, p.store, p.epoch, c.permission AS collaborator, ";
/// Followed by the viewer's id.
const FROM: &str = " FROM repositories r JOIN users u ON u.id = r.owner_id JOIN placements p ON p.repository_id = r.id \
     LEFT JOIN collaborators c ON c.repository_id = r.id AND c.user_id = ";
const READY: &str = " WHERE r.state = 'ready'";
const ADD_TEXT: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) VALUES ($1, $2, $3)";
const REMOVE_TEXT: &str = "DELETE FROM repositories_text WHERE rowid = $1";
/// Changes of what belongs to one repository take turns, and find it still there. SQLite's writer excludes others by itself.
const TURN: &str = "SELECT owner_id FROM repositories WHERE id = $1 AND state = 'ready' FOR NO KEY UPDATE";
const SOLE_TURN: &str = "SELECT owner_id FROM repositories WHERE id = $1 AND state = 'ready'";
/// Creations of one owner take turns while their number is limited. SQLite's writer excludes others by itself.
const OWNER_TURN: &str = "SELECT repository_limit FROM users WHERE id = $1 FOR UPDATE";
const NO_TURN: &str = "SELECT repository_limit FROM users WHERE id = $1";
const COUNT_OWNED: &str = "SELECT COUNT(*) FROM repositories WHERE owner_id = $1";
const INSERT: &str = "INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, \
     is_mirror, is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     VALUES ($1, $2, $3, $4, $5, '', 'creating', $6, $7, $8, $9, $10, 0, 0, 0, 1, 0, 0, 0, $11, $11) \
     ON CONFLICT DO NOTHING RETURNING id";
const PLACE: &str = "INSERT INTO placements (repository_id, store, epoch) VALUES ($1, $2, $3)";
const STATE: &str = "SELECT state FROM repositories WHERE owner_id = $1 AND name_key = $2";
/// An update of the first commit may have arrived already; it knows better.
const FINISH: &str = "UPDATE repositories SET state = 'ready', \
     size_bytes = CASE WHEN refs_number = 0 THEN $2 ELSE size_bytes END, \
     is_empty = CASE WHEN refs_number = 0 THEN $3 ELSE is_empty END WHERE id = $1 AND state = 'creating'";
const IS_CREATING: &str = "SELECT state FROM repositories WHERE id = $1 AND state = 'creating'";
const ABANDON: &str = "DELETE FROM repositories WHERE id = $1 AND state = 'creating'";
/// No name has this form.
const SET_ASIDE: &str =
    "UPDATE repositories SET name_key = '!' || CAST(id AS TEXT) WHERE id = $1 AND state = 'creating'";
const HALF_MADE: &str =
    "SELECT id FROM repositories WHERE state = 'creating' AND created_us < $1 ORDER BY id LIMIT 100";
const DELETE: &str = "DELETE FROM repositories WHERE id = $1 AND state = 'ready'";
const APPLY_REFS: &str = "UPDATE repositories SET refs_number = $2, size_bytes = $3, is_empty = $4, \
     default_branch = COALESCE($5, default_branch), updated_us = CASE WHEN updated_us < $6 THEN $6 ELSE updated_us END \
     WHERE id = $1 AND refs_number < $2";
/// Measured after the update that was applied last, or not at all.
const FULL_NAME: &str = "SELECT u.name, r.name FROM repositories r JOIN users u ON u.id = r.owner_id WHERE r.id = $1";
const APPLY_SIZE: &str = "UPDATE repositories SET size_bytes = $2 WHERE id = $1 AND refs_number <= $3";
const APPLY_ISSUES: &str =
    "UPDATE repositories SET open_issue_count = $2, issues_version = $3 WHERE id = $1 AND issues_version < $3";
const ADD_STORE: &str = "INSERT INTO stores (name, created_us) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Repositories that are remembered for one viewer each, as long as nothing changes: about a kilobyte each.
const REMEMBERED: u64 = 10_000;
/// The epoch of a first placement.
const FIRST_EPOCH: i64 = 1;

/// A repository with its owner, its placement, and what one viewer has to do with it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Repository {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) is_private: bool,
    pub(crate) is_mirror: bool,
    pub(crate) is_empty: bool,
    pub(crate) is_issues_enabled: bool,
    pub(crate) default_branch: String,
    pub(crate) size_bytes: i64,
    pub(crate) star_count: i64,
    pub(crate) fork_count: i64,
    pub(crate) watcher_count: i64,
    pub(crate) open_issue_count: i64,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
    pub(crate) owner_id: i64,
    pub(crate) owner_name: String,
    pub(crate) owner_full_name: String,
    pub(crate) owner_email: String,
    pub(crate) owner_kind: String,
    pub(crate) owner_is_admin: bool,
    pub(crate) store: String,
    pub(crate) epoch: i64,
    collaborator: Option<String>,
    team_level: Option<i64>,
}

impl Repository {
    /// Its id.
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.id)
    }

    /// What decides about the viewer it was read for.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            repository: self.id(),
            owner: UserId(self.owner_id),
            is_private: self.is_private,
            collaborator: stored_level(self.collaborator.as_deref()),
            team: level_of(self.team_level),
        }
    }

    /// The level of the viewer it was read for on the repository itself.
    pub(crate) fn level(&self, viewer: &Viewer) -> Permission {
        self.facts().level(viewer, Unit::Repository)
    }
}

/// How a repository is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RepositoryKey {
    /// By id.
    Id(RepositoryId),
    /// By the folded names of its owner and itself.
    Name {
        /// The owner's.
        owner: String,
        /// Its own.
        name: String,
    },
}

impl RepositoryKey {
    /// The key of `owner/name`, or `None` when no repository can be named so.
    pub(crate) fn of(owner: &str, name: &str) -> Option<Self> {
        Some(Self::Name { owner: lookup_key(owner)?, name: lookup_key(name)? })
    }
}

/// A repository to register.
#[derive(Clone, Debug)]
pub(crate) struct NewRepository {
    pub(crate) name: RepoName,
    pub(crate) description: Description,
    pub(crate) is_private: bool,
    pub(crate) default_branch: String,
    pub(crate) store: String,
}

/// What a store says of a repository that it made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) size_bytes: i64,
    pub(crate) is_empty: bool,
}

/// Repositories, their placement and their collaborators.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryStore {
    pub(super) db: Db,
    /// For each viewer's account.
    found: QueryCache<(RepositoryKey, Option<UserId>), Option<Repository>>,
}

/// The repositories as rows for `viewer`.
fn rows(viewer: &Viewer) -> Query {
    let mut query = Query::new("");
    columns(&mut query, FROM, viewer);
    query.push(READY);
    query
}

pub(super) fn columns(query: &mut Query, from: &'static str, viewer: &Viewer) {
    query.push(COLUMNS);
    access::team_level(query, viewer);
    query.push(" AS team_level").push(from).bind(viewer.user().map_or(0, |user| user.0));
}

fn by_key(query: &mut Query, key: &RepositoryKey) {
    match key {
        RepositoryKey::Id(id) => query.push(" AND r.id = ").bind(*id),
        RepositoryKey::Name { owner, name } => {
            query.push(" AND u.name_key = ").bind(owner).push(" AND r.name_key = ").bind(name)
        }
    };
}

impl RepositoryStore {
    /// The repositories in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db, found: QueryCache::new(REMEMBERED) }
    }

    /// Makes a store known, so that repositories can be placed on it.
    pub(crate) async fn add_store(&self, name: &str, now_us: i64) -> Result<(), DbError> {
        self.db.execute(ADD_STORE, &args![name, now_us]).await.map(|_| ())
    }

    /// The repository, as it is to `viewer`, or `None`. Whether the viewer may know of it is the caller's to check.
    pub(crate) async fn find(&self, key: &RepositoryKey, viewer: &Viewer) -> Result<Option<Repository>, DbError> {
        let ask = async {
            let mut query = rows(viewer);
            by_key(&mut query, key);
            self.db.optional(query.sql(), query.args()).await
        };
        // Of the viewer only the account is part of the question.
        self.found.get_or_query(&self.db, (key.clone(), viewer.user()), ask).await
    }

    /// Waits for a turn to change what belongs to a repository, in the transaction of the caller. The account that owns it, or
    /// `None` when it is gone.
    pub(crate) async fn turn(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<UserId>, DbError> {
        let owner: Option<(i64,)> = tx.optional(tx.pick(TURN, SOLE_TURN), &args![id]).await?;
        Ok(owner.map(|(owner,)| UserId(owner)))
    }

    /// Makes the texts of a repository searchable; PostgreSQL's index sees to that by itself.
    async fn index(&self, tx: &mut Tx, id: i64, name_key: &str, description_key: &str) -> Result<(), DbError> {
        if tx.pick(false, true) {
            tx.execute(ADD_TEXT, &args![id, name_key, description_key]).await?;
        }
        Ok(())
    }

    /// Forgets the texts of a repository where [`RepositoryStore::index`] keeps them.
    async fn unindex(&self, tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        if tx.pick(false, true) {
            tx.execute(REMOVE_TEXT, &args![id]).await?;
        }
        Ok(())
    }

    /// Registers a repository that is yet to be made, with its placement. `None` when the owner has one of that name.
    ///
    /// # Errors
    /// [`RepoError::RepositoryLimit`] when the owner has as many as its own limit, or else `limit`, already;
    /// [`RepoError::UserNotFound`] when the owner is gone.
    pub(crate) async fn insert(
        &self,
        owner: UserId,
        new: &NewRepository,
        limit: Option<u32>,
        now_us: i64,
    ) -> Result<Option<(RepositoryId, i64)>, RepoError> {
        let mut tx = self.db.begin().await?;
        let turn = tx.pick(OWNER_TURN, NO_TURN);
        let own_limit: Option<(Option<i64>,)> = tx.optional(turn, &args![owner]).await?;
        let (own_limit,) = own_limit.ok_or(RepoError::UserNotFound)?;
        if let Some(limit) = own_limit.or(limit.map(i64::from)) {
            let (count,): (i64,) = tx.one(COUNT_OWNED, &args![owner]).await?;
            if count >= limit {
                return Err(RepoError::RepositoryLimit { limit });
            }
        }
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
        tx.execute(PLACE, &args![id, new.store.as_str(), FIRST_EPOCH]).await?;
        self.index(&mut tx, id, &new.name.key(), &new.description.key()).await?;
        tx.commit().await?;
        Ok(Some((RepositoryId(id), FIRST_EPOCH)))
    }

    /// Whether a repository of that name is being made now.
    pub(crate) async fn is_being_made(&self, owner: UserId, name: &RepoName) -> Result<bool, DbError> {
        let row: Option<(String,)> = self.db.optional(STATE, &args![owner, name.key()]).await?;
        Ok(row.is_some_and(|(state,)| state == "creating"))
    }

    /// Makes a repository visible, in the transaction of the caller, and returns it as its owner sees it. `None` when it is
    /// gone.
    pub(crate) async fn finish(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        finished: Finished,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        if tx.execute(FINISH, &args![id, finished.size_bytes, finished.is_empty]).await? == 0 {
            return Ok(None);
        }
        let mut query = rows(viewer);
        by_key(&mut query, &RepositoryKey::Id(id));
        tx.optional(query.sql(), query.args()).await
    }

    /// Whether a repository is registered and not finished.
    pub(crate) async fn is_creating(&self, id: RepositoryId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(String,)>(IS_CREATING, &args![id]).await?.is_some())
    }

    /// Forgets a repository that was never finished.
    pub(crate) async fn abandon(&self, id: RepositoryId) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        if tx.execute(ABANDON, &args![id]).await? == 1 {
            self.unindex(&mut tx, id).await?;
        }
        tx.commit().await
    }

    /// Frees the name of a repository that was never finished and that its store cannot forget now.
    pub(crate) async fn set_aside(&self, id: RepositoryId) -> Result<(), DbError> {
        let mut tx = self.db.begin().await?;
        if tx.execute(SET_ASIDE, &args![id]).await? == 1 {
            self.unindex(&mut tx, id).await?;
        }
        tx.commit().await
    }

    /// Repositories that were begun before a time and never finished, at most 100.
    pub(crate) async fn half_made(&self, before_us: i64) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(HALF_MADE, &args![before_us]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Deletes a repository with all that hangs on it, in the transaction of the caller. `false` when it is gone already.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: RepositoryId) -> Result<bool, DbError> {
        if self.turn(tx, id).await?.is_none() {
            return Ok(false);
        }
        release_repository_keys(tx, id).await?;
        self.unindex(tx, id).await?;
        Ok(tx.execute(DELETE, &args![id]).await? == 1)
    }

    /// Takes over what an update of refs made of a repository, unless a later one was applied already.
    pub(crate) async fn apply_refs(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        update: &RefsUpdated,
        time_us: i64,
    ) -> Result<(), DbError> {
        // A branch name that is not text cannot be shown as one: the last that could stays.
        let branch =
            std::str::from_utf8(&update.default_branch).ok().filter(|name| !name.is_empty() && !name.contains('\0'));
        let args = args![id, update.number, update.size_bytes, update.is_empty, branch.map(str::to_owned), time_us];
        tx.execute(APPLY_REFS, &args).await.map(|_| ())
    }

    /// The `owner/name` of a repository.
    pub(crate) async fn full_name(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<String>, DbError> {
        let row: Option<(String, String)> = tx.optional(FULL_NAME, &args![id]).await?;
        Ok(row.map(|(owner, name)| format!("{owner}/{name}")))
    }

    /// Takes over what a repository takes on disk, unless an update of refs that was applied already was later.
    pub(crate) async fn apply_size(&self, tx: &mut Tx, id: RepositoryId, change: &SizeChanged) -> Result<(), DbError> {
        tx.execute(APPLY_SIZE, &args![id, change.size_bytes, change.number]).await.map(|_| ())
    }

    /// Takes over the number of open issues, unless a later one was applied already.
    pub(crate) async fn apply_issues(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &IssueChanged,
    ) -> Result<(), DbError> {
        tx.execute(APPLY_ISSUES, &args![id, change.open_issue_count, change.version]).await.map(|_| ())
    }
}
