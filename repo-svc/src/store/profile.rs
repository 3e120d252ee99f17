use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::accounts::UserRow;
use crate::RepoError;
use crate::model::{Email, User};

const EMAILS: &str = "SELECT e.email, CASE WHEN e.email_key = u.email_key THEN TRUE ELSE FALSE END AS is_primary \
     FROM emails e JOIN users u ON u.id = e.user_id WHERE e.user_id = $1 \
     ORDER BY CASE WHEN e.email_key = u.email_key THEN 0 ELSE 1 END, e.id LIMIT $2 OFFSET $3";
const EMAIL_COUNT: &str = "SELECT COUNT(*) FROM emails WHERE user_id = $1";
const ADD_EMAILS: &str = "INSERT INTO emails (user_id, email, email_key, created_us) VALUES ";
/// Waits for an administrator who is changing which address is the primary one.
const PRIMARY_POSTGRES: &str = "SELECT email_key FROM users WHERE id = $1 FOR UPDATE";
const PRIMARY_SQLITE: &str = "SELECT email_key FROM users WHERE id = $1";
/// The most addresses of an account: whoever adds one has it for itself, so nobody may take them all.
const EMAILS_MAX: i64 = 100;
const REMOVE_EMAILS: &str = "DELETE FROM emails WHERE user_id = ";

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

/// An address of an account.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct EmailRow {
    pub(crate) email: String,
    pub(crate) is_primary: bool,
}

/// From which end follows are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Those who follow.
    Followers,
    /// Those who are followed.
    Following,
}

/// Addresses and follows.
#[derive(Clone, Debug)]
pub(crate) struct ProfileStore {
    db: Db,
}

impl ProfileStore {
    /// The profiles in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// A page of the user's addresses, the primary one first, and how many there are in all.
    pub(crate) async fn emails(&self, user: UserId, page: Page) -> Result<(Vec<EmailRow>, i64), DbError> {
        let rows = self.db.all(EMAILS, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(EMAIL_COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    /// Adds addresses to an account, all or none. There is at least one.
    ///
    /// # Errors
    /// [`RepoError::EmailUsed`] when one of them is anybody's, or is there twice; [`RepoError::Invalid`] when the account would have
    /// too many; [`RepoError::UserNotFound`] when the user has just been removed.
    pub(crate) async fn add_emails(
        &self,
        tx: &mut Tx,
        user: UserId,
        emails: &[Email],
        now_us: i64,
    ) -> Result<(), RepoError> {
        let sql = tx.pick(PRIMARY_POSTGRES, PRIMARY_SQLITE);
        tx.optional::<(Option<String>,)>(sql, &args![user]).await?.ok_or(RepoError::UserNotFound)?;
        // In one order, so that two requests with the same addresses wait for each other and not both for the other.
        let mut sorted: Vec<&Email> = emails.iter().collect();
        sorted.sort_by_key(|email| email.key());
        let mut query = Query::new(ADD_EMAILS);
        for (place, email) in sorted.into_iter().enumerate() {
            query.push(if place == 0 { "" } else { ", " });
            query.bind_list(args![user, email.as_str(), email.key(), now_us]);
        }
        query.push(" ON CONFLICT DO NOTHING");
        let added = tx.execute(query.sql(), query.args()).await?;
        if added != emails.len() as u64 {
            return Err(RepoError::EmailUsed);
        }
        // The account is locked: nobody adds others meanwhile.
        let (count,): (i64,) = tx.one(EMAIL_COUNT, &args![user]).await?;
        if count > EMAILS_MAX {
            let message = format!("would give the account more than {EMAILS_MAX} addresses");
            return Err(RepoError::field("emails", "too_long", &message));
        }
        Ok(())
    }

    /// Removes those of the addresses that are the user's. Returns them, or `None`, with nothing removed, when one of them is the
    /// primary one.
    pub(crate) async fn remove_emails(
        &self,
        tx: &mut Tx,
        user: UserId,
        keys: &[String],
    ) -> Result<Option<Vec<String>>, DbError> {
        let sql = tx.pick(PRIMARY_POSTGRES, PRIMARY_SQLITE);
        let primary: Option<(Option<String>,)> = tx.optional(sql, &args![user]).await?;
        if primary.and_then(|(key,)| key).is_some_and(|key| keys.contains(&key)) {
            return Ok(None);
        }
        let mut query = Query::new(REMOVE_EMAILS);
        query.bind(user).push(" AND email_key IN ").bind_list(keys).push(" RETURNING email");
        let rows: Vec<(String,)> = tx.all(query.sql(), query.args()).await?;
        Ok(Some(rows.into_iter().map(|(email,)| email).collect()))
    }

    /// A page of those who follow a user or whom it follows, in the order in which they began, and how many there are in all.
    pub(crate) async fn follows(&self, user: UserId, which: Follows, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let (list, count) = match which {
            Follows::Followers => (FOLLOWERS, FOLLOWER_COUNT),
            Follows::Following => (FOLLOWING, FOLLOWING_COUNT),
        };
        let rows: Vec<UserRow> = self.db.all(list, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(count, &args![user]).await?;
        Ok((rows.into_iter().map(User::from).collect(), count))
    }

    /// Whether one user follows another.
    pub(crate) async fn is_following(&self, follower: UserId, followed: UserId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(IS_FOLLOWING, &args![follower, followed]).await?.is_some())
    }

    /// Makes one user follow another, unless it does.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] when one of them has just been removed.
    pub(crate) async fn follow(&self, follower: UserId, followed: UserId, now_us: i64) -> Result<(), RepoError> {
        match self.db.execute(FOLLOW, &args![follower, followed, now_us]).await {
            Err(error) if error.is_foreign_key() => Err(RepoError::UserNotFound),
            done => Ok(done.map(drop)?),
        }
    }

    /// Makes one user follow another no longer.
    pub(crate) async fn unfollow(&self, follower: UserId, followed: UserId) -> Result<(), DbError> {
        self.db.execute(UNFOLLOW, &args![follower, followed]).await.map(drop)
    }
}
