//! E-mail addresses of accounts, and follows between users.
//!
//! Addresses in `emails` are verified: each belongs to one account, which can sign in with it and
//! owns the commits with it. Addresses that users add are in `unverified_emails` and do nothing
//! until an administrator verifies them.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::UserId;

use super::sql::{Locking, locking, or_missing};
use crate::error::RepoError;
use crate::model::{Email, User};

/// The verified addresses (in `emails`) and the unverified ones.
const EMAILS: &str = "SELECT email, is_primary, is_verified FROM ( \
     SELECT e.email, CASE WHEN e.email_key = u.email_key THEN TRUE ELSE FALSE END AS is_primary, TRUE AS is_verified, \
     CASE WHEN e.email_key = u.email_key THEN 0 ELSE 1 END AS place, e.created_us, e.id \
     FROM emails e JOIN users u ON u.id = e.user_id WHERE e.user_id = $1 \
     UNION ALL SELECT v.email, FALSE, FALSE, 2, v.created_us, v.id FROM unverified_emails v WHERE v.user_id = $1) AS listed \
     ORDER BY place, created_us, id LIMIT $2 OFFSET $3";
const ARE_VERIFIED: &str = "SELECT user_id FROM emails WHERE email_key IN ";
const ADD_EMAILS: &str = "INSERT INTO unverified_emails (user_id, email, email_key, created_us) VALUES ";
/// Locks the account, so that the primary address does not change.
const LOCK_PRIMARY: Locking = locking!("SELECT email_key FROM users WHERE id = $1", " FOR NO KEY UPDATE");
const REMOVE_EMAILS: [&str; 2] =
    ["DELETE FROM emails WHERE user_id = ", "DELETE FROM unverified_emails WHERE user_id = "];

const VERIFIED: &str = "SELECT email FROM emails WHERE user_id = $1 AND email_key = $2";
const SET_PRIMARY: &str = "UPDATE users SET email = $2, email_key = $3 WHERE id = $1";

/// Counts verified and unverified addresses.
const EMAIL_COUNT: &str = "SELECT (SELECT COUNT(*) FROM emails WHERE user_id = $1) \
     + (SELECT COUNT(*) FROM unverified_emails WHERE user_id = $1)";
const OWNER: &str = "SELECT user_id FROM emails WHERE email_key = $1";
const TAKE_UNVERIFIED: &str = "DELETE FROM unverified_emails WHERE email_key = $1 RETURNING user_id, email, created_us";
/// Does nothing if an account already has the address.
pub(super) const ADD_VERIFIED: &str =
    "INSERT INTO emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const TAKE_VERIFIED: &str =
    "DELETE FROM emails WHERE user_id = $1 AND email_key = $2 RETURNING user_id, email, created_us";
const ADD_UNVERIFIED: &str = "INSERT INTO unverified_emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
/// Page size to read a whole list.
const ALL: i64 = i64::MAX;
/// Limits an account, because no other account can add an address that it has.
const MAX_EMAILS_PER_ACCOUNT: i64 = 100;

const FOLLOWERS: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin FROM follows f \
     JOIN users u ON u.id = f.follower_id WHERE f.followed_id = $1 \
     ORDER BY f.created_us, f.follower_id LIMIT $2 OFFSET $3";
const FOLLOWER_COUNT: &str = "SELECT COUNT(*) FROM follows WHERE followed_id = $1";
const FOLLOWING: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin FROM follows f \
     JOIN users u ON u.id = f.followed_id WHERE f.follower_id = $1 \
     ORDER BY f.created_us, f.followed_id LIMIT $2 OFFSET $3";
const FOLLOWING_COUNT: &str = "SELECT COUNT(*) FROM follows WHERE follower_id = $1";
const IS_FOLLOWING: &str = "SELECT follower_id FROM follows WHERE follower_id = $1 AND followed_id = $2";
const FOLLOW: &str =
    "INSERT INTO follows (follower_id, followed_id, created_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const UNFOLLOW: &str = "DELETE FROM follows WHERE follower_id = $1 AND followed_id = $2";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct EmailRow {
    pub(crate) email: String,
    pub(crate) is_primary: bool,
    /// True for addresses that an administrator set or verified.
    pub(crate) is_verified: bool,
}

#[derive(Debug, sqlx_macros::FromRow)]
struct MovedEmailRow {
    user_id: i64,
    email: String,
    created_us: i64,
}

/// Which side of the follow relation to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowDirection {
    Followers,
    Following,
}

#[derive(Clone, Debug)]
pub(crate) struct ProfileTable {
    db: Db,
}

impl ProfileTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of addresses (primary first, then verified) and the total.
    pub(crate) async fn emails(&self, user: UserId, page: Page) -> Result<(Vec<EmailRow>, i64), DbError> {
        let rows = self.db.all(EMAILS, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(EMAIL_COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    /// All addresses, in the order of [`ProfileTable::emails`].
    pub(crate) async fn all_emails(&self, user: UserId) -> Result<Vec<EmailRow>, DbError> {
        self.db.all(EMAILS, &args![user, ALL, 0_i64]).await
    }

    /// Like [`ProfileTable::all_emails`]. Also locks the account's addresses until the transaction
    /// ends.
    pub(crate) async fn lock_emails(&self, tx: &mut Tx, user: UserId) -> Result<Vec<EmailRow>, DbError> {
        tx.optional::<(Option<String>,)>(LOCK_PRIMARY.sql(tx), &args![user]).await?;
        tx.all(EMAILS, &args![user, ALL, 0_i64]).await
    }

    /// Adds unverified addresses, all or none. Fails with [`RepoError::OneOfEmailsUsed`] if an
    /// account has one of them, or if one is listed twice.
    pub(crate) async fn add_emails(
        &self,
        tx: &mut Tx,
        user: UserId,
        emails: &[Email],
        now_us: i64,
    ) -> Result<(), RepoError> {
        let account: Option<(Option<String>,)> = tx.optional(LOCK_PRIMARY.sql(tx), &args![user]).await?;
        account.ok_or(RepoError::UserNotFound)?;
        let mut verified = Query::new(ARE_VERIFIED);
        verified.bind_list(emails.iter().map(Email::key)).push(" LIMIT 1");
        if tx.optional::<(i64,)>(verified.sql(), verified.args()).await?.is_some() {
            return Err(RepoError::OneOfEmailsUsed);
        }
        // Insert in a fixed order, so that two requests with the same addresses do not deadlock.
        let mut sorted: Vec<&Email> = emails.iter().collect();
        sorted.sort_by_key(|email| email.key());
        let mut query = Query::new(ADD_EMAILS);
        query.bind_rows(sorted.into_iter().map(|email| args![user, email.as_str(), email.key(), now_us]));
        query.push(" ON CONFLICT DO NOTHING");
        let added = tx.execute(query.sql(), query.args()).await?;
        if added != emails.len() as u64 {
            return Err(RepoError::OneOfEmailsUsed);
        }
        // The account is locked, so no other request adds addresses.
        require_room(tx, user, "emails").await
    }

    /// Removes the listed addresses that belong to the user, and returns them. Removes nothing and
    /// returns `None` if one is the primary address.
    pub(crate) async fn remove_emails(
        &self,
        tx: &mut Tx,
        user: UserId,
        keys: &[String],
    ) -> Result<Option<Vec<String>>, DbError> {
        let primary: Option<(Option<String>,)> = tx.optional(LOCK_PRIMARY.sql(tx), &args![user]).await?;
        if primary.and_then(|(key,)| key).is_some_and(|key| keys.contains(&key)) {
            return Ok(None);
        }
        let mut removed = Vec::new();
        for statement in REMOVE_EMAILS {
            let mut query = Query::new(statement);
            query.bind(user).push(" AND email_key IN ").bind_list(keys).push(" RETURNING email");
            let rows: Vec<(String,)> = tx.all(query.sql(), query.args()).await?;
            removed.extend(rows.into_iter().map(|(email,)| email));
        }
        Ok(Some(removed))
    }

    /// Returns a page of followers or followed users, oldest follow first, and the total.
    pub(crate) async fn follows(
        &self,
        user: UserId,
        direction: FollowDirection,
        page: Page,
    ) -> Result<(Vec<User>, i64), DbError> {
        let (list, count) = match direction {
            FollowDirection::Followers => (FOLLOWERS, FOLLOWER_COUNT),
            FollowDirection::Following => (FOLLOWING, FOLLOWING_COUNT),
        };
        let rows = self.db.all(list, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(count, &args![user]).await?;
        Ok((rows, count))
    }

    pub(crate) async fn is_following(&self, follower: UserId, followed: UserId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(IS_FOLLOWING, &args![follower, followed]).await?.is_some())
    }

    /// Does nothing if the user already follows.
    pub(crate) async fn follow(&self, follower: UserId, followed: UserId, now_us: i64) -> Result<(), RepoError> {
        let done = self.db.execute(FOLLOW, &args![follower, followed, now_us]).await;
        done.map(drop).map_err(or_missing(RepoError::UserNotFound))
    }

    /// Does nothing if the user does not follow.
    pub(crate) async fn unfollow(&self, follower: UserId, followed: UserId) -> Result<(), DbError> {
        self.db.execute(UNFOLLOW, &args![follower, followed]).await.map(drop)
    }
}

/// Makes a verified address of a locked account its primary one, and returns its spelling. Returns
/// `None` if the account has no such verified address.
pub(crate) async fn set_primary_email(tx: &mut Tx, user: UserId, key: &str) -> Result<Option<String>, DbError> {
    let found: Option<(String,)> = tx.optional(VERIFIED, &args![user, key]).await?;
    let Some((email,)) = found else { return Ok(None) };
    tx.execute(SET_PRIMARY, &args![user, email.as_str(), key]).await?;
    Ok(Some(email))
}

/// Fails with a violation of `field` if the account has too many addresses.
async fn require_room(tx: &mut Tx, user: UserId, field: &str) -> Result<(), RepoError> {
    let (count,): (i64,) = tx.one(EMAIL_COUNT, &args![user]).await?;
    if count > MAX_EMAILS_PER_ACCOUNT {
        let message = format!("an account can have at most {MAX_EMAILS_PER_ACCOUNT} addresses");
        return Err(RepoError::field(field, "too_long", &message));
    }
    Ok(())
}

/// Drops an unverified address that has just become a verified one of this or another account.
pub(super) async fn drop_unverified(tx: &mut Tx, email_key: &str) -> Result<(), DbError> {
    tx.optional::<MovedEmailRow>(TAKE_UNVERIFIED, &args![email_key]).await.map(drop)
}

/// Verifies an address of a locked account, even if the user has not added it. Takes it from the
/// account that has it unverified. Returns `false` if it was already verified.
pub(crate) async fn verify_email(tx: &mut Tx, user: UserId, email: &Email, now_us: i64) -> Result<bool, RepoError> {
    match tx.optional::<(i64,)>(OWNER, &args![email.key()]).await? {
        Some((owner,)) if owner == user.0 => return Ok(false),
        Some(_) => return Err(RepoError::EmailUsed),
        None => {}
    }
    let claimed: Option<MovedEmailRow> = tx.optional(TAKE_UNVERIFIED, &args![email.key()]).await?;
    // Keep the spelling and time of an address that the user added.
    let (text, created_us) = match claimed.filter(|row| row.user_id == user.0) {
        Some(own) => (own.email, own.created_us),
        None => (email.as_str().to_owned(), now_us),
    };
    if tx.execute(ADD_VERIFIED, &args![user, text, email.key(), created_us]).await? == 0 {
        return Err(RepoError::EmailUsed);
    }
    require_room(tx, user, "email").await?;
    Ok(true)
}

/// Marks a verified address of a locked account as unverified. It must not be the primary one.
/// Returns `false` if the account has no such verified address.
pub(crate) async fn unverify_email(tx: &mut Tx, user: UserId, email: &Email) -> Result<bool, DbError> {
    let Some(row) = tx.optional::<MovedEmailRow>(TAKE_VERIFIED, &args![user, email.key()]).await? else {
        return Ok(false);
    };
    tx.execute(ADD_UNVERIFIED, &args![user, row.email, email.key(), row.created_us]).await?;
    Ok(true)
}
