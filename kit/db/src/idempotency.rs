//! Idempotency keys make writes safe to retry: the same key and request get the stored response,
//! and the effect happens once.
//!
//! Key, request hash and response are written to the table `idempotency` of the service, in the
//! transaction of the effect. A key belongs to one user, access token and method: another token of
//! the same user does not get the stored response. The service checks the caller's access before it
//! replays a response.

use std::future::Future;

use ferrite_core::sealing::Sealer;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::metadata::IDEMPOTENCY_KEY;
use ferrite_rpc::auth::Caller;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::Status;

use crate::args;
use crate::{Db, DbError, Tx};

const MAX_KEY_BYTES: usize = 255;
/// Largest response that is stored. For a larger one, its subject is stored, from which the
/// response is rebuilt.
pub const MAX_STORED_RESPONSE_BYTES: usize = 4 * 1024;
/// Suffix of the hash of a request whose response was not stored. The subject is stored instead, if
/// any.
const NOT_KEPT: &str = "-";
const RETENTION_US: i64 = 24 * 3600 * 1_000_000;

const FIND: &str = "SELECT request_hash, answer FROM idempotency WHERE key_hash = $1";
const IS_USED: &str = "SELECT created_us FROM idempotency WHERE key_hash = $1";
const STORE: &str = "INSERT INTO idempotency (key_hash, request_hash, answer, created_us) VALUES ($1, $2, $3, $4)";
const WITHDRAW: &str = "DELETE FROM idempotency WHERE key_hash = $1";
/// Expired rows that one write deletes: more than it adds, but few enough to be cheap.
const MAX_PURGED_ROWS: i64 = 50;
/// Skips locked rows, because other writes and replicas purge at the same time.
const PURGE_POSTGRES: &str = "DELETE FROM idempotency WHERE key_hash IN (SELECT key_hash FROM idempotency WHERE created_us < $1 \
     ORDER BY created_us LIMIT $2 FOR UPDATE SKIP LOCKED)";
const PURGE_SQLITE: &str = "DELETE FROM idempotency WHERE key_hash IN (SELECT key_hash FROM idempotency WHERE created_us < $1 \
     ORDER BY created_us LIMIT $2)";

/// The idempotency key of a request, with the hash of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    key_hash: String,
    request_hash: String,
    /// Hashes of other forms of the request that may be stored.
    other_hashes: Vec<String>,
}

/// The stored result of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored<A, S> {
    /// The response.
    Response(A),
    /// The subject of a response that was too large.
    Subject(S),
}

/// Why a request with an idempotency key failed.
#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    /// The key is malformed.
    #[error("idempotency key must be 1 to 255 printable ASCII characters")]
    BadKey,
    /// The key was used with another request.
    #[error("idempotency key was already used for another request")]
    Reused,
    /// The write was done before, but its response was too large to store and has no subject.
    #[error("the request was already processed, but its response is too large to repeat")]
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
            cause.log("looking up an idempotency key");
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
    /// Returns the idempotency key of a request, if any. `caller` is a user id or zero. The key
    /// also belongs to the access token of the request.
    ///
    /// # Errors
    /// [`IdempotencyError::BadKey`] if the key is malformed.
    pub fn of<T: Message>(
        request: &tonic::Request<T>,
        caller: i64,
        method: &str,
    ) -> Result<Option<Self>, IdempotencyError> {
        let token = request.extensions().get::<Caller>().map_or(0, Caller::token_id);
        Self::of_token(request, caller, token, method)
    }

    /// Like [`IdempotencyKey::of`], for a request that a service makes for the user `caller` with
    /// the access token `token`.
    ///
    /// # Errors
    /// [`IdempotencyError::BadKey`] if the key is malformed.
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

    /// Like [`IdempotencyKey::of`], for a request with secrets, which `redact` replaces with their
    /// fingerprints. So another secret is another request, but without the key of `sealer` nobody
    /// can try secrets against the stored hash. After that key changes, a repeated request still
    /// matches as long as the old key is configured.
    ///
    /// # Errors
    /// [`IdempotencyError::BadKey`] if the key is malformed.
    ///
    /// # Panics
    /// Never: a sealer has a key.
    pub fn of_redacted<T: Message + Clone>(
        request: &tonic::Request<T>,
        caller: i64,
        method: &str,
        sealer: &Sealer,
        redact: impl Fn(&mut T, &dyn Fn(&str) -> String),
    ) -> Result<Option<Self>, IdempotencyError> {
        let Some(key) = Self::of(request, caller, method)? else { return Ok(None) };
        let mut hashes = sealer.fingerprints().map(|fingerprint| {
            let mut content = request.get_ref().clone();
            redact(&mut content, &fingerprint);
            hash_of(&content)
        });
        let request_hash = hashes.next().expect("a sealer has a key");
        Ok(Some(Self { request_hash, other_hashes: hashes.collect(), ..key }))
    }

    /// Stores responses for another form of the request, such as one that refers to the same
    /// subject in another way. Still accepts a response stored for an earlier form.
    #[must_use]
    pub fn in_form(mut self, request: &impl Message) -> Self {
        let hash = hash_of(request);
        self.other_hashes.push(std::mem::replace(&mut self.request_hash, hash));
        self
    }

    /// Returns the id of the stored response, for [`withdraw`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.key_hash
    }

    /// Whether a response is stored for the key, of this request or another one.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn is_used(&self, db: &Db) -> Result<bool, DbError> {
        Ok(db.optional::<(i64,)>(IS_USED, &args![self.key_hash.as_str()]).await?.is_some())
    }

    /// Returns the stored response, if the write was done before.
    ///
    /// # Errors
    /// [`IdempotencyError::Reused`] if the key was used with another request,
    /// [`IdempotencyError::NotKept`] if the response was too large.
    pub async fn replay<A: Message + Default>(&self, db: &Db) -> Result<Option<A>, IdempotencyError> {
        match self.find::<A, ()>(db).await? {
            Some(Stored::Response(response)) => Ok(Some(response)),
            Some(Stored::Subject(())) => Err(IdempotencyError::NotKept),
            None => Ok(None),
        }
    }

    /// Returns the stored response or subject, if the write was done before.
    ///
    /// # Errors
    /// [`IdempotencyError::Reused`] if the key was used with another request,
    /// [`IdempotencyError::NotKept`] if the response was too large and has no subject.
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

    /// Stores a response, which must fit [`MAX_STORED_RESPONSE_BYTES`], in the transaction of the
    /// effect. Of two concurrent writes with the same key one fails here with
    /// [`DbError::is_unique`]: it must roll back and replay.
    ///
    /// # Errors
    /// If a response is already stored for the key, or the database fails.
    pub async fn store<A: Message>(&self, tx: &mut Tx, response: &A, now_us: i64) -> Result<(), DbError> {
        self.store_with_subject(tx, response, &(), now_us).await
    }

    /// Like [`IdempotencyKey::store`]. Stores `subject`, such as an id, if the response exceeds
    /// [`MAX_STORED_RESPONSE_BYTES`]; [`once_or_rebuild`] makes the response from it again.
    ///
    /// # Errors
    /// As [`IdempotencyKey::store`].
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
            // A large subject would defeat the purpose.
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

/// Deletes the response stored with [`IdempotencyKey::id`]. For a write that stored its response
/// first and then failed.
///
/// # Errors
/// If the database fails.
pub async fn withdraw(tx: &mut Tx, id: &str) -> Result<(), DbError> {
    tx.execute(WITHDRAW, &args![id]).await.map(drop)
}

fn hash_of(request: &impl Message) -> String {
    hex::encode(Sha256::digest(request.encode_to_vec()))
}

/// Returns the stored response of `key`, or runs `write` and returns its response. If `write`
/// fails, for example because a concurrent retry was faster, returns the response that was stored
/// in the meantime.
///
/// # Errors
/// The error of `write`, or an [`IdempotencyError`].
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

/// Like [`once`], for responses that may be too large to store. For a retry, `rebuild` makes the
/// response again from the current state and the subject stored with
/// [`IdempotencyKey::store_with_subject`].
///
/// # Errors
/// As [`once`], and those of `rebuild`.
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
