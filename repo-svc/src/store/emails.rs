//! Verified and unverified e-mail addresses. One in `emails` is verified: it belongs to one account, signs in to it and links commits to it.
//! Those that users have added stand in `unverified_emails` until an administrator verifies them, and do none of that.
//!
//! Not here: the lists of a user's addresses (`profile`), and primary addresses (`accounts`, `users`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::UserId;

use crate::error::RepoError;
use crate::model::Email;

/// Counts the verified and the unverified addresses of an account.
pub(super) const EMAIL_COUNT: &str = "SELECT (SELECT COUNT(*) FROM emails WHERE user_id = $1) \
     + (SELECT COUNT(*) FROM unverified_emails WHERE user_id = $1)";
const OWNER: &str = "SELECT user_id FROM emails WHERE email_key = $1";
const TAKE_UNVERIFIED: &str = "DELETE FROM unverified_emails WHERE email_key = $1 RETURNING user_id, email, created_us";
/// Adds a verified address, unless an account has it.
pub(super) const ADD_VERIFIED: &str =
    "INSERT INTO emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
const TAKE_VERIFIED: &str =
    "DELETE FROM emails WHERE user_id = $1 AND email_key = $2 RETURNING user_id, email, created_us";
const ADD_UNVERIFIED: &str = "INSERT INTO unverified_emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
/// Limit for the addresses of an account. No other account can add an address that one has, so none may add without limit.
const MAX_EMAILS_PER_ACCOUNT: i64 = 100;

/// An address that was moved between the verified and the unverified ones.
#[derive(Debug, sqlx::FromRow)]
struct MovedEmailRow {
    user_id: i64,
    email: String,
    created_us: i64,
}

/// Refuses more addresses than an account may have.
///
/// # Errors
/// [`RepoError::Invalid`] with a violation of `field`, or those of the database.
pub(super) async fn require_room(tx: &mut Tx, user: UserId, field: &str) -> Result<(), RepoError> {
    let (count,): (i64,) = tx.one(EMAIL_COUNT, &args![user]).await?;
    if count > MAX_EMAILS_PER_ACCOUNT {
        let message = format!("would give the account more than {MAX_EMAILS_PER_ACCOUNT} addresses");
        return Err(RepoError::field(field, "too_long", &message));
    }
    Ok(())
}

/// Drops the unverified claim of an account to an address, which has become a verified one of this account or another.
pub(super) async fn drop_unverified(tx: &mut Tx, email_key: &str) -> Result<(), DbError> {
    tx.optional::<MovedEmailRow>(TAKE_UNVERIFIED, &args![email_key]).await.map(drop)
}

/// Makes an address a verified one of a locked account, whether or not the user has added it, and takes it from the account that has it
/// unverified. Returns `false` if it was verified before.
///
/// # Errors
/// [`RepoError::EmailUsed`] if it is a verified one of another account, [`RepoError::Invalid`] if the account would have too many,
/// or those of the database.
pub(crate) async fn verify_email(tx: &mut Tx, user: UserId, email: &Email, now_us: i64) -> Result<bool, RepoError> {
    match tx.optional::<(i64,)>(OWNER, &args![email.key()]).await? {
        Some((owner,)) if owner == user.0 => return Ok(false),
        Some(_) => return Err(RepoError::EmailUsed),
        None => {}
    }
    let claimed: Option<MovedEmailRow> = tx.optional(TAKE_UNVERIFIED, &args![email.key()]).await?;
    // An address that the user has added keeps its spelling and its time.
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

/// Makes a verified address of a locked account, which is not the primary one, an unverified one. Returns `false` if the account has no
/// such verified address.
pub(crate) async fn unverify_email(tx: &mut Tx, user: UserId, email: &Email) -> Result<bool, DbError> {
    let Some(row) = tx.optional::<MovedEmailRow>(TAKE_VERIFIED, &args![user, email.key()]).await? else {
        return Ok(false);
    };
    tx.execute(ADD_UNVERIFIED, &args![user, row.email, email.key(), row.created_us]).await?;
    Ok(true)
}
