//! Imports from other hosts: the jobs as users see them, the repositories they create, and the
//! state of mirrors. Credentials are only on the git store. For migrations of the schema see
//! [`super::migrations`].

use ferrite_core::page::Page;
use ferrite_core::text::is_control_or_direction;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::events::{MigrationEnded, MirrorChanged};
use ferrite_proto::git;
use ferrite_proto::id::{RepositoryId, UserId};

use super::audit::Actor;
use super::ownership::made_by_user;
use super::repositories::RepositoryTable;
use super::repository_sizes::{SizeChange, branch_column};
use super::sql::{Locking, locking};
use super::wikis::{self, Wiki};

const COLUMNS: &str = "SELECT m.id, m.repository_id, m.user_id, u.name AS username, m.owner_name, m.name, m.phase, m.object_count, \
     m.received_bytes, m.error, m.interval_secs, m.wiki_id, m.token_id, m.address, m.request_id, m.created_us, m.heard_us, \
     m.finished_us, COALESCE(p.store, '') AS store FROM migrations m JOIN users u ON u.id = m.user_id \
     LEFT JOIN placements p ON p.repository_id = m.repository_id";
const INSERT: &str = "INSERT INTO migrations (repository_id, user_id, owner_name, name, phase, object_count, received_bytes, error, \
     interval_secs, wiki_id, token_id, address, request_id, created_us, heard_us, finished_us) \
     VALUES ($1, $2, $3, $4, 'queued', 0, 0, '', $5, $6, $7, $8, $9, $10, $10, 0) RETURNING id";
const SET_ORIGINAL_URL: &str = "UPDATE repositories SET original_url = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM migrations WHERE id = $1 AND finished_us = 0";
/// The store may report the end while the sweeper gives the import up.
const UNFINISHED_LOCK: Locking = locking!(" AND m.finished_us = 0", " FOR UPDATE OF m");
const UNOWNED: Locking = locking!(
    concat!(
        "SELECT x.id, x.repository_id FROM migrations x WHERE x.user_id = $1 AND x.finished_us = 0 AND NOT ",
        made_by_user!(),
        " ORDER BY x.id"
    ),
    " FOR UPDATE OF x"
);
const IS_OWNED: &str = concat!("SELECT x.id FROM migrations x WHERE x.id = $1 AND ", made_by_user!());
const UPDATE: &str = "UPDATE migrations SET phase = $2, object_count = $3, received_bytes = $4, heard_us = $5 \
     WHERE id = $1 AND finished_us = 0";
const END: &str = "UPDATE migrations SET phase = $2, error = $3, object_count = CASE WHEN object_count < $4 THEN $4 ELSE object_count END, \
     received_bytes = CASE WHEN received_bytes < $5 THEN $5 ELSE received_bytes END, heard_us = $6, finished_us = $6 \
     WHERE id = $1 AND finished_us = 0";
const PURGE: &str = "DELETE FROM migrations WHERE finished_us > 0 AND finished_us < $1";
const FINISH: &str = "UPDATE repositories SET state = 'ready', size_bytes = $2, is_empty = $3, \
     default_branch = COALESCE($4, default_branch), refs_number = $5, is_mirror = $6, mirror_interval_secs = $7, \
     mirror_last_sync_us = $8, mirror_next_sync_us = $9, updated_us = $10 WHERE id = $1 AND state = 'creating' RETURNING owner_id";
const APPLY_MIRROR: &str = "UPDATE repositories SET mirror_interval_secs = $2, mirror_last_sync_us = $3, mirror_next_sync_us = $4, \
     mirror_error = $5, mirror_version = $6 WHERE id = $1 AND is_mirror AND mirror_version < $6";

/// Imports checked per run of the sweeper.
const MAX_UNHEARD: i64 = 100;
const MAX_ERROR_CHARS: usize = 500;

/// An import to register before telling the store.
#[derive(Clone, Debug)]
pub(crate) struct NewImport<'a> {
    pub(crate) repository: RepositoryId,
    pub(crate) owner_name: &'a str,
    pub(crate) name: &'a str,
    /// Seconds between syncs of a mirror; zero for a one-time import.
    pub(crate) interval_secs: i64,
    /// Zero if the wiki is not imported.
    pub(crate) wiki_id: i64,
    /// The address of the remote, without credentials.
    pub(crate) original_url: &'a str,
    pub(crate) actor: &'a Actor,
}

/// The values of the column `phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Queued,
    Fetching,
    Indexing,
    Done,
    Failed,
}

impl Phase {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Queued, "queued"),
        (Self::Fetching, "fetching"),
        (Self::Indexing, "indexing"),
        (Self::Done, "done"),
        (Self::Failed, "failed"),
    ];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("failed", |(_, word)| word)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    pub(crate) object_count: i64,
    pub(crate) received_bytes: i64,
}

impl Progress {
    /// If the import has ended on the store, it still counts as running until the store's event
    /// arrives.
    pub(crate) fn of(response: &git::GetMigrationResponse) -> Self {
        let phase = match response.phase() {
            git::MigrationPhase::Unspecified | git::MigrationPhase::Queued => Phase::Queued,
            git::MigrationPhase::Fetching => Phase::Fetching,
            git::MigrationPhase::Indexing | git::MigrationPhase::Done | git::MigrationPhase::Failed => Phase::Indexing,
        };
        Self { phase, object_count: response.object_count, received_bytes: response.received_bytes }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Import {
    pub(crate) id: i64,
    repository_id: i64,
    user_id: i64,
    username: String,
    pub(crate) owner_name: String,
    pub(crate) name: String,
    phase: String,
    object_count: i64,
    received_bytes: i64,
    pub(crate) error: String,
    interval_secs: i64,
    pub(crate) wiki_id: i64,
    pub(crate) token_id: i64,
    address: String,
    request_id: String,
    pub(crate) created_us: i64,
    pub(crate) heard_us: i64,
    /// Zero while running.
    pub(crate) finished_us: i64,
    /// The git store of the repository; empty if that was deleted.
    pub(crate) store: String,
}

impl Import {
    pub(crate) fn repository_id(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }

    pub(crate) fn user_id(&self) -> UserId {
        UserId(self.user_id)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished_us > 0
    }

    pub(crate) fn progress(&self) -> Progress {
        let phase = Phase::ALL.iter().find(|(_, word)| *word == self.phase).map_or(Phase::Failed, |(phase, _)| *phase);
        Progress { phase, object_count: self.object_count, received_bytes: self.received_bytes }
    }

    /// The user who started it, for the audit log.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            id: self.user_id,
            name: self.username.clone(),
            token_id: self.token_id,
            address: self.address.clone(),
            request_id: self.request_id.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ImportTable {
    db: Db,
}

impl ImportTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Registers an import in the transaction that registers its repository. Returns the import's
    /// id.
    pub(crate) async fn insert(&self, tx: &mut Tx, new: &NewImport<'_>, now_us: i64) -> Result<i64, DbError> {
        let args = args![
            new.repository,
            new.actor.id,
            new.owner_name,
            new.name,
            new.interval_secs,
            new.wiki_id,
            new.actor.token_id,
            new.actor.address.as_str(),
            new.actor.request_id.as_str(),
            now_us,
        ];
        tx.execute_later(SET_ORIGINAL_URL, &args![new.repository, new.original_url]).await?;
        let (id,): (i64,) = tx.one(INSERT, &args).await?;
        Ok(id)
    }

    /// Deletes an import that never started.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: i64) -> Result<(), DbError> {
        tx.execute(DELETE, &args![id]).await.map(|_| ())
    }

    pub(crate) async fn find(&self, id: i64) -> Result<Option<Import>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(" WHERE m.id = ").bind(id);
        self.db.optional(query.sql(), query.args()).await
    }

    /// Returns a page of a user's imports, newest first, and the total. `only` limits them to these
    /// repositories and to imports that this token started.
    pub(crate) async fn list(
        &self,
        user: UserId,
        only: Option<(&[i64], i64)>,
        page: Page,
    ) -> Result<(Vec<Import>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" WHERE m.user_id = ").bind(user);
            if let Some((repositories, token)) = only {
                query.push(" AND (m.token_id = ").bind(token).push(" OR m.repository_id IN ");
                query.bind_list(repositories.iter().copied()).push(")");
            }
        };
        let mut rows = Query::new(COLUMNS);
        filter(&mut rows);
        rows.push(" ORDER BY m.id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let mut count = Query::new("SELECT COUNT(*) FROM migrations m");
        filter(&mut count);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Locks the running import of a repository against ending; `None` if it has ended.
    pub(crate) async fn lock(&self, tx: &mut Tx, id: RepositoryId) -> Result<Option<Import>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(" WHERE m.repository_id = ").bind(id).push(UNFINISHED_LOCK.sql(tx));
        tx.optional(query.sql(), query.args()).await
    }

    /// Locks the user's running imports to owners for whom the user can no longer create
    /// repositories. Returns each with its repository.
    pub(crate) async fn lock_unowned(&self, tx: &mut Tx, user: UserId) -> Result<Vec<(i64, RepositoryId)>, DbError> {
        let rows: Vec<(i64, i64)> = tx.all(UNOWNED.sql(tx), &args![user]).await?;
        Ok(rows.into_iter().map(|(id, repository)| (id, RepositoryId(repository))).collect())
    }

    /// Whether the user who started the import can still create repositories for the owner.
    pub(crate) async fn is_owned(&self, tx: &mut Tx, id: i64) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(IS_OWNED, &args![id]).await?.is_some())
    }

    /// Returns up to 100 running imports without news since a time, oldest news first.
    pub(crate) async fn unheard(&self, since_us: i64) -> Result<Vec<Import>, DbError> {
        let mut query = Query::new(COLUMNS);
        query.push(" WHERE m.finished_us = 0 AND m.heard_us < ").bind(since_us);
        query.push(" ORDER BY m.heard_us LIMIT ").bind(MAX_UNHEARD);
        self.db.all(query.sql(), query.args()).await
    }

    /// Stores the progress that the store reported.
    pub(crate) async fn update(&self, id: i64, progress: Progress, now_us: i64) -> Result<(), DbError> {
        let Progress { phase, object_count, received_bytes } = progress;
        self.db.execute(UPDATE, &args![id, phase.as_str(), object_count, received_bytes, now_us]).await.map(|_| ())
    }

    /// Ends an import; as failed if `end.error` is not empty.
    pub(crate) async fn end(&self, tx: &mut Tx, id: i64, end: &MigrationEnded, now_us: i64) -> Result<(), DbError> {
        let phase = if end.error.is_empty() { Phase::Done } else { Phase::Failed };
        let error = shown_error(&end.error);
        let args = args![id, phase.as_str(), error, end.object_count, end.received_bytes, now_us];
        tx.execute(END, &args).await.map(|_| ())
    }

    pub(crate) async fn purge(&self, before_us: i64) -> Result<u64, DbError> {
        self.db.execute(PURGE, &args![before_us]).await
    }
}

impl RepositoryTable {
    /// Marks an imported repository, and its wiki if there is one, as finished, which makes it
    /// visible. Returns the change in the owner's usage; `None` if it was removed in the meantime.
    pub(crate) async fn finish_imported(
        &self,
        tx: &mut Tx,
        import: &Import,
        end: &MigrationEnded,
        now_us: i64,
    ) -> Result<Option<SizeChange>, DbError> {
        let interval = import.interval_secs;
        let is_mirror = interval > 0;
        let (last_us, next_us) = if is_mirror { (now_us, now_us + interval * 1_000_000) } else { (0, 0) };
        let args = args![
            import.repository_id,
            end.size_bytes,
            end.is_empty,
            branch_column(&end.default_branch),
            end.number,
            is_mirror,
            interval,
            last_us,
            next_us,
            now_us,
        ];
        let Some((owner,)) = tx.optional::<(i64,)>(FINISH, &args).await? else { return Ok(None) };
        if end.has_wiki && import.wiki_id > 0 {
            let wiki = Wiki { id: import.wiki_id, is_made: true };
            wikis::add_wiki(tx, import.repository_id(), wiki, now_us).await?;
        }
        Ok(Some(SizeChange { owner: UserId(owner), bytes: end.size_bytes }))
    }

    /// Applies the state of a mirror unless a later one was applied.
    pub(crate) async fn apply_mirror(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &MirrorChanged,
    ) -> Result<(), DbError> {
        let Some(state) = &change.state else { return Ok(()) };
        let error = shown_error(&state.last_error);
        let last_us = state.last_sync_time.as_ref().map_or(0, |time| micros(time.seconds, time.nanos));
        let next_us = state.next_sync_time.as_ref().map_or(0, |time| micros(time.seconds, time.nanos));
        let args = args![id, state.interval_seconds, last_us, next_us, error, change.version];
        tx.execute(APPLY_MIRROR, &args).await.map(|_| ())
    }
}

/// Makes the error of an import or sync safe to show: a remote may have sent parts of it.
fn shown_error(text: &str) -> String {
    text.chars().filter(|char| !is_control_or_direction(*char)).take(MAX_ERROR_CHARS).collect()
}

/// Microseconds since 1970; zero if out of range.
fn micros(seconds: i64, nanos: i32) -> i64 {
    seconds.checked_mul(1_000_000).and_then(|us| us.checked_add(i64::from(nanos) / 1_000)).unwrap_or(0)
}
