//! Transfers of repositories that wait for their new owners.
//!
//! Not here: the change of the owner itself (`repository_settings`).

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::constraints::or_missing;
use crate::error::RepoError;

const FIND: &str = "SELECT new_owner_id, user_id, created_us FROM repository_transfers WHERE repository_id = $1";
const INSERT: &str = "INSERT INTO repository_transfers (repository_id, new_owner_id, user_id, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const END: &str = "DELETE FROM repository_transfers WHERE repository_id = $1 RETURNING new_owner_id";

/// A transfer that waits for the new owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct TransferRow {
    new_owner_id: i64,
    user_id: i64,
    pub(crate) created_us: i64,
}

impl TransferRow {
    /// Returns the account that is to own the repository.
    pub(crate) fn new_owner(&self) -> UserId {
        UserId(self.new_owner_id)
    }

    /// Returns the user who started it.
    pub(crate) fn user(&self) -> UserId {
        UserId(self.user_id)
    }
}

/// Store of transfers that wait. Methods that change one expect that the same transaction locked the repository.
#[derive(Clone, Debug)]
pub(crate) struct TransferStore {
    db: Db,
}

impl TransferStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the transfer of a repository that waits.
    pub(crate) async fn find(&self, repository: RepositoryId) -> Result<Option<TransferRow>, DbError> {
        self.db.optional(FIND, &args![repository]).await
    }

    /// Starts a transfer that waits.
    ///
    /// # Errors
    /// [`RepoError::TransferPending`] if another one of the repository waits, [`RepoError::UserNotFound`] if the new owner was deleted,
    /// or those of the database.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        new_owner: UserId,
        user: UserId,
        now_us: i64,
    ) -> Result<(), RepoError> {
        let inserted = tx.execute(INSERT, &args![repository, new_owner, user, now_us]).await;
        let inserted = inserted.map_err(or_missing(RepoError::UserNotFound))?;
        if inserted == 1 { Ok(()) } else { Err(RepoError::TransferPending) }
    }

    /// Ends the transfer that waits. Returns its new owner; `None` if there is none.
    pub(crate) async fn end(&self, tx: &mut Tx, repository: RepositoryId) -> Result<Option<UserId>, DbError> {
        let row: Option<(i64,)> = tx.optional(END, &args![repository]).await?;
        Ok(row.map(|(new_owner,)| UserId(new_owner)))
    }
}
