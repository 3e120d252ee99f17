//! Delivery attempts in the delivery log. Bodies are kept up to [`MAX_KEPT_BODY_BYTES`]. A retry
//! stores its request body only if it differs from the previous one.

use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx, Value};
use sqlx_macros::FromRow;

use super::kept_bytes::DELIVERY_BYTES;

/// Bytes of a request or response body that the log keeps.
pub(crate) const MAX_KEPT_BODY_BYTES: usize = 64 * 1024;
/// Newest attempts shown with a delivery.
const MAX_SHOWN_ATTEMPTS: i64 = 50;

const INSERT: &str = "INSERT INTO attempts (delivery_id, number, started_us, duration_ms, shown_url, request_headers, request_body, \
     is_request_cut, response_status, response_headers, response_body, is_response_cut, error) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const LAST_BODY: &str = "SELECT request_body FROM attempts WHERE delivery_id = $1 AND request_body IS NOT NULL \
     ORDER BY number DESC LIMIT 1";
/// An attempt without a request body repeats the last stored one before it.
const LIST: &str = "SELECT a.number, a.started_us, a.duration_ms, a.shown_url, a.request_headers, \
     COALESCE(a.request_body, (SELECT b.request_body FROM attempts b WHERE b.delivery_id = a.delivery_id AND b.number < a.number \
     AND b.request_body IS NOT NULL ORDER BY b.number DESC LIMIT 1)) AS request_body, a.is_request_cut, a.response_status, \
     a.response_headers, a.response_body, a.is_response_cut, a.error \
     FROM attempts a WHERE a.delivery_id = $1 ORDER BY a.number DESC LIMIT $2";

/// A request with its response, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct Attempt {
    /// From 1, over all attempts of the delivery.
    pub(crate) number: i64,
    pub(crate) started_us: i64,
    pub(crate) duration_ms: i64,
    /// The URL at that time, with its password hidden.
    pub(crate) shown_url: String,
    /// Name-value pairs as JSON, without headers that contain secrets.
    pub(crate) request_headers: String,
    /// The beginning of the body. `None` if nothing was sent.
    pub(crate) request_body: Option<Vec<u8>>,
    pub(crate) is_request_cut: bool,
    pub(crate) response_status: Option<i64>,
    /// In the same form as `request_headers`.
    pub(crate) response_headers: Option<String>,
    pub(crate) response_body: Option<Vec<u8>>,
    pub(crate) is_response_cut: bool,
    pub(crate) error: Option<String>,
}

impl Attempt {
    /// Returns the counted size of the row.
    pub(crate) fn bytes(&self) -> i64 {
        let bodies = [&self.request_body, &self.response_body].into_iter().flatten().map(Vec::len);
        let texts = [&self.response_headers, &self.error].into_iter().flatten().map(String::len);
        let rest = self.shown_url.len() + self.request_headers.len();
        DELIVERY_BYTES + (bodies.sum::<usize>() + texts.sum::<usize>() + rest) as i64
    }
}

/// Returns the attempt as it is stored: without a request body that repeats the previous one.
pub(super) async fn without_repetition(tx: &mut Tx, delivery_id: i64, attempt: &Attempt) -> Result<Attempt, DbError> {
    let mut attempt = attempt.clone();
    if attempt.number > 1 && attempt.request_body.is_some() {
        let last: Option<(Vec<u8>,)> = tx.optional(LAST_BODY, &args![delivery_id]).await?;
        if last.map(|(body,)| body) == attempt.request_body {
            attempt.request_body = None;
        }
    }
    Ok(attempt)
}

pub(super) async fn insert(tx: &mut Tx, delivery_id: i64, attempt: &Attempt) -> Result<(), DbError> {
    let args = args![
        delivery_id,
        attempt.number,
        attempt.started_us,
        attempt.duration_ms,
        &attempt.shown_url,
        &attempt.request_headers,
        Value::Bytes(attempt.request_body.clone()),
        attempt.is_request_cut,
        attempt.response_status,
        attempt.response_headers.clone(),
        Value::Bytes(attempt.response_body.clone()),
        attempt.is_response_cut,
        attempt.error.clone(),
    ];
    tx.execute(INSERT, &args).await?;
    Ok(())
}

/// Returns the newest attempts of a delivery, oldest first.
pub(crate) async fn list(db: &Db, delivery_id: i64) -> Result<Vec<Attempt>, DbError> {
    let mut attempts: Vec<Attempt> = db.all(LIST, &args![delivery_id, MAX_SHOWN_ATTEMPTS]).await?;
    attempts.reverse();
    Ok(attempts)
}
