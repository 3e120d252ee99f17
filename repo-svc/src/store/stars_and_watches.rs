//! Stars and watches: rows between users and repositories, and their counts, which are columns of
//! the repositories.
//!
//! A count changes in the transaction of the row, which locks the user first and then the
//! repository. So counts always match the rows, even while accounts and repositories are deleted.

use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::is_conditional;

use super::sql::{Locking, locking, or_missing};
use crate::error::RepoError;
use crate::model::User;

/// Locks the user against deletion.
const LOCK_USER: Locking = locking!("SELECT id FROM users WHERE id = $1", " FOR KEY SHARE");
const LOCK_REPOSITORY: Locking =
    locking!("SELECT id FROM repositories WHERE id = $1 AND state = 'ready'", " FOR NO KEY UPDATE");
/// Locks the next repositories that a user has a relation to.
const NEXT_RELATED: Locking = locking!(
    "SELECT id FROM repositories WHERE id IN (SELECT repository_id FROM \
     (SELECT repository_id FROM stars WHERE user_id = $1 AND repository_id > $2 ORDER BY repository_id LIMIT $3) AS s \
     UNION SELECT repository_id FROM \
     (SELECT repository_id FROM watches WHERE user_id = $1 AND repository_id > $2 ORDER BY repository_id LIMIT $3) AS w) \
     ORDER BY id LIMIT $3",
    " FOR NO KEY UPDATE"
);
/// Repositories updated at once when an account is deleted.
const REPOSITORIES_PER_BATCH: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Star,
    Watch,
}

struct Statements {
    add: &'static str,
    remove: &'static str,
    find: &'static str,
    count: &'static str,
    users: &'static str,
    /// Subtracts the user's rows with repositories in a range of ids.
    subtract: &'static str,
}

macro_rules! statements {
    ($table:literal, $count:literal) => {
        Statements {
            add: concat!(
                "INSERT INTO ",
                $table,
                " (user_id, repository_id, created_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
            ),
            remove: concat!("DELETE FROM ", $table, " WHERE user_id = $1 AND repository_id = $2"),
            find: concat!("SELECT created_us FROM ", $table, " WHERE user_id = $1 AND repository_id = $2"),
            count: concat!("UPDATE repositories SET ", $count, " = ", $count, " + $2 WHERE id = $1"),
            users: concat!(
                "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin FROM ",
                $table,
                " x JOIN users u ON u.id = x.user_id WHERE x.repository_id = $1 ",
                "ORDER BY x.created_us, x.user_id LIMIT $2 OFFSET $3"
            ),
            subtract: concat!(
                "UPDATE repositories SET ",
                $count,
                " = ",
                $count,
                " - 1 WHERE id IN (SELECT repository_id FROM ",
                $table,
                " WHERE user_id = $1 AND repository_id > $2 AND repository_id <= $3)"
            ),
        }
    };
}

const STARS: Statements = statements!("stars", "star_count");
const WATCHES: Statements = statements!("watches", "watcher_count");

impl Relation {
    fn statements(self) -> &'static Statements {
        match self {
            Self::Star => &STARS,
            Self::Watch => &WATCHES,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RelationTable {
    db: Db,
}

impl RelationTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns when the relation began (microseconds since 1970); `None` if there is none.
    pub(crate) async fn find(
        &self,
        relation: Relation,
        user: UserId,
        repository: RepositoryId,
    ) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = self.db.optional(relation.statements().find, &args![user, repository]).await?;
        Ok(row.map(|(created_us,)| created_us))
    }

    /// Begins a relation if there is none. Returns when it began.
    pub(crate) async fn add(
        &self,
        relation: Relation,
        user: UserId,
        repository: RepositoryId,
        now_us: i64,
    ) -> Result<i64, RepoError> {
        let statements = relation.statements();
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, repository).await?;
        require_version(&mut tx, statements, user, repository).await?;
        if tx.execute(statements.add, &args![user, repository, now_us]).await? == 1 {
            tx.execute(statements.count, &args![repository, 1_i64]).await?;
        }
        let (created_us,): (i64,) = tx.one(statements.find, &args![user, repository]).await?;
        tx.commit().await?;
        Ok(created_us)
    }

    /// Does nothing if there is no relation.
    pub(crate) async fn remove(
        &self,
        relation: Relation,
        user: UserId,
        repository: RepositoryId,
    ) -> Result<(), RepoError> {
        let statements = relation.statements();
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, repository).await?;
        require_version(&mut tx, statements, user, repository).await?;
        if tx.execute(statements.remove, &args![user, repository]).await? == 1 {
            tx.execute(statements.count, &args![repository, -1_i64]).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Returns a page of users, oldest relation first.
    pub(crate) async fn users(
        &self,
        relation: Relation,
        repository: RepositoryId,
        page: Page,
    ) -> Result<Vec<User>, DbError> {
        let args = args![repository, page.size(), page.offset()];
        self.db.all(relation.statements().users, &args).await
    }
}

/// Locks a user against deletion, and a repository and the rows that belong to it.
async fn lock(tx: &mut Tx, user: UserId, repository: RepositoryId) -> Result<(), RepoError> {
    tx.optional::<(i64,)>(LOCK_USER.sql(tx), &args![user]).await?.ok_or(RepoError::UserNotFound)?;
    let found: Option<(i64,)> = tx.optional(LOCK_REPOSITORY.sql(tx), &args![repository]).await?;
    Ok(found.map(drop).ok_or(AuthError::RepositoryNotFound)?)
}

/// Checks the request's precondition. The version of a relation is its start time. The user and
/// repository must be locked.
async fn require_version(
    tx: &mut Tx,
    statements: &Statements,
    user: UserId,
    repository: RepositoryId,
) -> Result<(), DbError> {
    if !is_conditional() {
        return Ok(());
    }
    let began: Option<(i64,)> = tx.optional(statements.find, &args![user, repository]).await?;
    tx.require_version(began.map(|(created_us,)| timestamp(created_us)).as_ref())
}

/// Makes a user watch a repository that the same transaction registers, with one watcher.
pub(super) async fn watch_new(
    tx: &mut Tx,
    repository: RepositoryId,
    user: UserId,
    now_us: i64,
) -> Result<(), RepoError> {
    let added = tx.execute(WATCHES.add, &args![user, repository, now_us]).await;
    added.map(drop).map_err(or_missing(RepoError::UserNotFound))
}

/// Subtracts a locked user's stars and watches from the counts. The rows are deleted with the
/// account.
pub(super) async fn subtract_user(tx: &mut Tx, user: UserId) -> Result<(), DbError> {
    let mut before = 0;
    loop {
        let batch: Vec<(i64,)> = tx.all(NEXT_RELATED.sql(tx), &args![user, before, REPOSITORIES_PER_BATCH]).await?;
        let Some((last,)) = batch.last().copied() else { return Ok(()) };
        for statements in [&STARS, &WATCHES] {
            tx.execute(statements.subtract, &args![user, before, last]).await?;
        }
        before = last;
    }
}
