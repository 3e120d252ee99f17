//! Uploaded pictures of users and organizations.

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::UserId;

use super::sql::or_missing;
use super::visibility;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{Avatar, Visibility};

const FIND: &str =
    "SELECT u.visibility, a.content, a.sha256 FROM users u LEFT JOIN avatars a ON a.user_id = u.id WHERE u.id = ";
/// Does nothing if the picture is unchanged.
const SET: &str = "INSERT INTO avatars (user_id, content, sha256, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (user_id) DO UPDATE SET content = excluded.content, sha256 = excluded.sha256, created_us = excluded.created_us \
     WHERE avatars.sha256 <> excluded.sha256";
const DELETE: &str = "DELETE FROM avatars WHERE user_id = $1";

/// The picture of an account, without content if nothing was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct AvatarRow {
    visibility: i64,
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) sha256: Option<String>,
}

impl AvatarRow {
    /// Whether some viewers cannot see the account.
    pub(crate) fn is_hidden(&self) -> bool {
        Visibility::from_number(self.visibility) != Visibility::Public
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AvatarTable {
    db: Db,
}

impl AvatarTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns `None` if there is no such account, or if it is hidden from the viewer.
    pub(crate) async fn find(&self, account: UserId, viewer: &Viewer) -> Result<Option<AvatarRow>, DbError> {
        let mut query = Query::new(FIND);
        query.bind(account);
        visibility::only_seen(&mut query, "u", viewer);
        self.db.optional(query.sql(), query.args()).await
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
