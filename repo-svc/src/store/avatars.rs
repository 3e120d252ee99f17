//! Uploaded pictures of users and organizations.

use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::id::UserId;

use super::sql::or_missing;
use crate::error::RepoError;
use crate::model::Avatar;

const FIND: &str = "SELECT a.content, a.sha256 FROM users u LEFT JOIN avatars a ON a.user_id = u.id WHERE u.id = $1";
/// Does nothing if the picture is unchanged.
const SET: &str = "INSERT INTO avatars (user_id, content, sha256, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (user_id) DO UPDATE SET content = excluded.content, sha256 = excluded.sha256, created_us = excluded.created_us \
     WHERE avatars.sha256 <> excluded.sha256";
const DELETE: &str = "DELETE FROM avatars WHERE user_id = $1";

/// The picture of an account, without content if nothing was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct AvatarRow {
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) sha256: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct AvatarTable {
    db: Db,
}

impl AvatarTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns `None` if there is no such account.
    pub(crate) async fn find(&self, account: UserId) -> Result<Option<AvatarRow>, DbError> {
        self.db.optional(FIND, &args![account]).await
    }

    /// Stores the picture of an account. Returns whether it changed.
    pub(crate) async fn set(
        &self,
        tx: &mut Tx,
        account: UserId,
        avatar: Avatar,
        now_us: i64,
    ) -> Result<bool, RepoError> {
        let sha256 = avatar.sha256();
        let set = tx.execute(SET, &args![account, avatar.into_content(), sha256, now_us]).await;
        Ok(set.map_err(or_missing(RepoError::UserNotFound))? > 0)
    }

    /// Returns whether there was one.
    pub(crate) async fn delete(&self, tx: &mut Tx, account: UserId) -> Result<bool, DbError> {
        Ok(tx.execute(DELETE, &args![account]).await? > 0)
    }
}
