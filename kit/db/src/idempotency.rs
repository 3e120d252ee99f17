//! Writes that are safe to repeat: the same key and request get the stored response, and the effect happens once.
//!
//! The key, the hash of the request and the response are written to the table `idempotency` of the service, in the transaction of the
//! effect. A key belongs to one user, one access token and one method, so that another token of the user gets no response that was
//! stored for the first.
//!
//! Not here: the choice of methods that accept a key, and the caller's access, which the service checks before it replays a response.

use std::future::Future;

use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::metadata::IDEMPOTENCY_KEY;
use ferrite_rpc::auth::Caller;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::Status;

use crate::args;
use crate::{Db, DbError, Tx};

const MAX_KEY_BYTES: usize = 255;
/// Largest response that is kept, in bytes. Of a larger one the subject is kept, from which a repeated request gets it anew.
pub const MAX_STORED_RESPONSE_BYTES: usize = 4 * 1024;
/// End of the hash of a request whose response was not kept. In its place is the subject; nothing if it has none.
const NOT_KEPT: &str = "-";
/// Time for which a response is kept.
const RETENTION_US: i64 = 24 * 3600 * 1_000_000;

const FIND: &str = "SELECT request_hash, answer FROM idempotency WHERE key_hash = $1";
const IS_USED: &str = "SELECT created_us FROM idempotency WHERE key_hash = $1";
const STORE: &str = "INSERT INTO idempotency (key_hash, request_hash, answer, created_us) VALUES ($1, $2, $3, $4)";
const WITHDRAW: &str = "DELETE FROM idempotency WHERE key_hash = $1";
/// Old rows that one write deletes: more than it adds, and few enough to cost it nothing.
const MAX_PURGED_ROWS: i64 = 50;
/// Other writes, of this process and of replicas, purge at the same time; they neither wait for each other nor block each other.
const PURGE_POSTGRES: &str = "DELETE FROM idempotency WHERE key_hash IN (SELECT key_hash FROM idempotency WHERE created_us < $1 \
     ORDER BY created_us LIMIT $2 FOR UPDATE SKIP LOCKED)";
const PURGE_SQLITE: &str = "DELETE FROM idempotency WHERE key_hash IN (SELECT key_hash FROM idempotency WHERE created_us < $1 \
     ORDER BY created_us LIMIT $2)";

/// The idempotency key of a request, with the hash of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    key_hash: String,
    request_hash: String,
    /// Hashes of other forms of the request, in which it may be stored.
    other_hashes: Vec<String>,
}

/// What is stored for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored<A, S> {
    /// The response.
    Response(A),
    /// The subject of a response that was too large.
    Subject(S),
}

/// The error of a request with an idempotency key.
#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    /// The key is malformed.
    #[error("idempotency key must be 1 to 255 printable ASCII characters")]
    BadKey,
    /// The key was used with another request.
    #[error("idempotency key was used with another request")]
    Reused,
    /// The write was done with the key, and its response was too large to be kept and has no subject.
    #[error("the request was carried out before, and its response is too large to be repeated")]
    NotKept,
    /// The database failed.
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

impl ServiceError for IdempotencyError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::BadKey => (Kind::InvalidArgument, "BAD_IDEMPOTENCY_KEY"),
            Self::Reused => (Kind::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"),
            Self::NotKept => (Kind::InvalidArgument, "IDEMPOTENT_RESPONSE_NOT_KEPT"),
            Self::Store(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        "idempotency"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self {
            Self::BadKey | Self::Reused | Self::NotKept => {
                vec![FieldViolation::new("Idempotency-Key", "invalid", self.to_string())]
            }
            Self::Store(_) => Vec::new(),
        }
    }
}

impl From<IdempotencyError> for Status {
    fn from(error: IdempotencyError) -> Self {
        if let IdempotencyError::Store(cause) = &error {
            cause.log("a look for an idempotency key");
        }
        to_status(&error)
    }
}

#[derive(sqlx_macros::FromRow)]
struct StoredRow {
    request_hash: String,
    #[sqlx(rename = "answer")]
    response: Vec<u8>,
}

impl IdempotencyKey {
    /// Returns the key of a request of `caller` (a user id, or zero) to `method`, if the request has one. It belongs to the access token
    /// of the request as well.
    ///
    /// # Errors
    /// [`IdempotencyError::BadKey`] when the key is malformed.
    pub fn of<T: Message>(
        request: &tonic::Request<T>,
        caller: i64,
        method: &str,
    ) -> Result<Option<Self>, IdempotencyError> {
        let token = request.extensions().get::<Caller>().map_or(0, Caller::token_id);
        Self::of_token(request, caller, token, method)
    }

    /// As [`IdempotencyKey::of`], for a request that a service makes for the user `caller` with the access token `token`.
    ///
    /// # Errors
    /// [`IdempotencyError::BadKey`] when the key is malformed.
    pub fn of_token<T: Message>(
        request: &tonic::Request<T>,
        caller: i64,
        token: i64,
        method: &str,
    ) -> Result<Option<Self>, IdempotencyError> {
        let Some(key) = request.metadata().get(IDEMPOTENCY_KEY) else { return Ok(None) };
        let key = key.to_str().map_err(|_| IdempotencyError::BadKey)?;
        if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(IdempotencyError::BadKey);
        }
        let key_hash = hex::encode(Sha256::digest(format!("{caller}\n{token}\n{method}\n{key}")));
        let request_hash = hash_of(request.get_ref());
        Ok(Some(Self { key_hash, request_hash, other_hashes: Vec::new() }))
    }

    /// Returns this key for a request that has another form as well, such as one with digests by a key that was replaced: a response that is
    /// stored for that form is one for this request.
    #[must_use]
    pub fn or_for(mut self, other: Self) -> Self {
        self.other_hashes.push(other.request_hash);
        self
    }

    /// Returns this key for another form of its request, such as one that names the same subject in another way. A response is stored for that
    /// form from now on. One that is stored for a form before is one for this request as well.
    #[must_use]
    pub fn in_form(mut self, request: &impl Message) -> Self {
        let hash = hash_of(request);
        self.other_hashes.push(std::mem::replace(&mut self.request_hash, hash));
        self
    }

    /// Returns the id under which [`IdempotencyKey::store`] stores the response, for [`withdraw`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.key_hash
    }

    /// Returns whether a response is stored for the key, of this request or another one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_used(&self, db: &Db) -> Result<bool, DbError> {
        Ok(db.optional::<(i64,)>(IS_USED, &args![self.key_hash.as_str()]).await?.is_some())
    }

    /// Returns the stored response of this key, if the write was done before.
    ///
    /// # Errors
    /// [`IdempotencyError::Reused`] when the key was used with another request, [`IdempotencyError::NotKept`] when the response was too
    /// large, [`IdempotencyError::Store`] when the database fails.
    pub async fn replay<A: Message + Default>(&self, db: &Db) -> Result<Option<A>, IdempotencyError> {
        match self.find::<A, ()>(db).await? {
            Some(Stored::Response(response)) => Ok(Some(response)),
            Some(Stored::Subject(())) => Err(IdempotencyError::NotKept),
            None => Ok(None),
        }
    }

    /// Returns what is stored for this key, if the write was done before.
    ///
    /// # Errors
    /// [`IdempotencyError::Reused`] when the key was used with another request, [`IdempotencyError::NotKept`] when the response was too
    /// large and has no subject, [`IdempotencyError::Store`] when the database fails.
    pub async fn find<A, S>(&self, db: &Db) -> Result<Option<Stored<A, S>>, IdempotencyError>
    where
        A: Message + Default,
        S: Message + Default,
    {
        let row: Option<StoredRow> = db.optional(FIND, &args![self.key_hash.as_str()]).await?;
        let Some(row) = row else { return Ok(None) };
        let hash = row.request_hash.strip_suffix(NOT_KEPT);
        let stored_for = hash.unwrap_or(&row.request_hash);
        if stored_for != self.request_hash && !self.other_hashes.iter().any(|other| other == stored_for) {
            return Err(IdempotencyError::Reused);
        }
        if hash.is_none() {
            return Ok(A::decode(row.response.as_slice()).ok().map(Stored::Response));
        }
        let subject = Some(row.response.as_slice()).filter(|bytes| !bytes.is_empty()).map(S::decode);
        subject.and_then(Result::ok).map(|subject| Some(Stored::Subject(subject))).ok_or(IdempotencyError::NotKept)
    }

    /// Stores a response that is never above [`MAX_STORED_RESPONSE_BYTES`], in the transaction of the effect. Of two concurrent writes with
    /// one key, one fails here with [`DbError::is_unique`]; it must roll back and replay.
    ///
    /// # Errors
    /// When a response is stored for the key already, or the database fails.
    pub async fn store<A: Message>(&self, tx: &mut Tx, response: &A, now_us: i64) -> Result<(), DbError> {
        self.store_with_subject(tx, response, &(), now_us).await
    }

    /// Stores a response as [`IdempotencyKey::store`]. Of one above [`MAX_STORED_RESPONSE_BYTES`] the subject is stored in its place, such as
    /// an id: what [`once_or_rebuild`] needs to make the response again.
    ///
    /// # Errors
    /// As those of [`IdempotencyKey::store`].
    pub async fn store_with_subject<A: Message, S: Message>(
        &self,
        tx: &mut Tx,
        response: &A,
        subject: &S,
        now_us: i64,
    ) -> Result<(), DbError> {
        let purge = tx.pick(PURGE_POSTGRES, PURGE_SQLITE);
        tx.execute(purge, &args![now_us - RETENTION_US, MAX_PURGED_ROWS]).await?;
        let (mut request_hash, mut stored) = (self.request_hash.clone(), Vec::new());
        if response.encoded_len() <= MAX_STORED_RESPONSE_BYTES {
            stored = response.encode_to_vec();
        } else {
            request_hash.push_str(NOT_KEPT);
            // A subject that is no small one is no help.
            if subject.encoded_len() <= MAX_STORED_RESPONSE_BYTES {
                stored = subject.encode_to_vec();
            }
            if stored.is_empty() {
                metrics::counter!("ferrite_idempotent_responses_not_kept_total").increment(1);
            }
        }
        tx.execute(STORE, &args![self.key_hash.as_str(), request_hash, stored, now_us]).await?;
        Ok(())
    }
}

/// Deletes the response stored under `id` ([`IdempotencyKey::id`]). For a write that stored its response before its effect, and whose
/// effect did not happen.
///
/// # Errors
/// When the database fails.
pub async fn withdraw(tx: &mut Tx, id: &str) -> Result<(), DbError> {
    tx.execute(WITHDRAW, &args![id]).await.map(drop)
}

fn hash_of(request: &impl Message) -> String {
    hex::encode(Sha256::digest(request.encode_to_vec()))
}

/// Returns the stored response of `key`, or else runs `write` and returns its response. If `write` fails, for example because a repeated
/// request was faster, a response that was stored in the meantime is returned.
///
/// # Errors
/// The error of `write`, or an [`IdempotencyError`] when the key was used with another request or the database fails.
pub async fn once<A, E>(
    db: &Db,
    key: Option<&IdempotencyKey>,
    write: impl Future<Output = Result<A, E>>,
) -> Result<A, E>
where
    A: Message + Default,
    E: From<IdempotencyError>,
{
    once_or_rebuild(db, key, |()| std::future::ready(Err(IdempotencyError::NotKept.into())), write).await
}

/// As [`once`], for a response that may be too large to be stored. `rebuild` makes it again for a repeated request, from the subject that
/// was stored with [`IdempotencyKey::store_with_subject`] and the state of today.
///
/// # Errors
/// As those of [`once`], and those of `rebuild`.
pub async fn once_or_rebuild<A, S, E, R>(
    db: &Db,
    key: Option<&IdempotencyKey>,
    rebuild: impl FnOnce(S) -> R,
    write: impl Future<Output = Result<A, E>>,
) -> Result<A, E>
where
    A: Message + Default,
    S: Message + Default,
    E: From<IdempotencyError>,
    R: Future<Output = Result<A, E>>,
{
    let Some(key) = key else { return write.await };
    let stored = match key.find(db).await? {
        Some(stored) => stored,
        None => match write.await {
            Ok(response) => return Ok(response),
            Err(error) => key.find(db).await?.ok_or(error)?,
        },
    };
    match stored {
        Stored::Response(response) => Ok(response),
        Stored::Subject(subject) => rebuild(subject).await,
    }
}

#[cfg(test)]
mod tests;
