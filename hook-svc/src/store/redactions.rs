//! Removes texts from stored events after their issue, comment or review was edited or deleted.
//!
//! The transaction that receives the change only records which text is outdated, and up to which
//! event. The background task in `redaction` then removes the texts in small batches, however many
//! there are. Each text is removed once, because its column, such as `text_issue_id`, is then NULL.
//! Later events have a newer text and are left alone. `kept_bytes` is updated to the new sizes.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::events::Event;
use ferrite_proto::id::RepositoryId;
use prost::Message;
use sqlx_macros::FromRow;

use super::events::{EventRow, EventTable, StoredEvent, event_bytes};
use super::kept_bytes;
use crate::model::Subject;

const NEXT: &str =
    "SELECT id, repository_id, subject, subject_id, last_event_id FROM redactions WHERE id > $1 ORDER BY id LIMIT 1";
const BYTES: &str = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM events WHERE id IN ";

/// The statements about the texts of one kind of subject.
struct Statements {
    queue: &'static str,
    /// On PostgreSQL, skips rows that another transaction is changing. A later batch gets them.
    with_text_postgres: &'static str,
    with_text_sqlite: &'static str,
    remove: &'static str,
    finish: &'static str,
}

macro_rules! with_text {
    ($column:literal, $lock:literal) => {
        concat!(
            "SELECT id, uuid, repository_id, source, name, fact, payload, revision, COALESCE(happened_us, created_us) AS happened_us \
             FROM events WHERE repository_id = $1 AND ",
            $column,
            " = $2 AND id <= $3 ORDER BY id LIMIT $4",
            $lock
        )
    };
}

/// The number of a kind of subject, and the column of `events` with the id of the subject.
macro_rules! statements {
    ($kind:literal, $column:literal) => {
        Statements {
            queue: concat!(
                "INSERT INTO redactions (repository_id, subject, subject_id, last_event_id) SELECT $1, ",
                $kind,
                ", $2, MAX(id) FROM events WHERE repository_id = $1 AND ",
                $column,
                " = $2 HAVING MAX(id) IS NOT NULL"
            ),
            with_text_postgres: with_text!($column, " FOR UPDATE SKIP LOCKED"),
            with_text_sqlite: with_text!($column, ""),
            remove: concat!(
                "UPDATE events SET fact = $2, payload = $3, bytes = $4, revision = revision + 1, ",
                $column,
                " = NULL WHERE id = $1"
            ),
            finish: concat!(
                "DELETE FROM redactions WHERE id = $1 AND NOT EXISTS \
                 (SELECT 1 FROM events WHERE repository_id = $2 AND ",
                $column,
                " = $3 AND id <= $4)"
            ),
        }
    };
}

const OF_ISSUES: Statements = statements!("1", "text_issue_id");
const OF_COMMENTS: Statements = statements!("2", "text_comment_id");
const OF_REVIEWS: Statements = statements!("3", "text_review_id");

/// Returns the statements about the texts of a subject, and its id.
fn of_subject(subject: Subject) -> (Statements, i64) {
    match subject {
        Subject::Issue(id) => (OF_ISSUES, id),
        Subject::Comment(id) => (OF_COMMENTS, id),
        Subject::Review(id) => (OF_REVIEWS, id),
    }
}

/// A text to remove from all events up to a given one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redaction {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) subject: Subject,
    last_event_id: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct RedactedEvent {
    pub(crate) id: i64,
    pub(crate) fact: Event,
    pub(crate) payload: Option<String>,
}

#[derive(FromRow)]
struct RedactionRow {
    id: i64,
    repository_id: i64,
    subject: i64,
    subject_id: i64,
    last_event_id: i64,
}

/// Records that the subject's text in all events so far is outdated. The row of the repository must
/// be locked.
pub(crate) async fn queue(tx: &mut Tx, repository: RepositoryId, subject: Subject) -> Result<(), DbError> {
    let (statements, id) = of_subject(subject);
    tx.execute(statements.queue, &args![repository, id]).await.map(drop)
}

/// Returns at most `limit` events that still have the text. The row of the repository must be
/// locked.
pub(crate) async fn with_text(tx: &mut Tx, redaction: &Redaction, limit: i64) -> Result<Vec<StoredEvent>, DbError> {
    let (statements, id) = of_subject(redaction.subject);
    let sql = tx.pick(statements.with_text_postgres, statements.with_text_sqlite);
    let rows: Vec<EventRow> = tx.all(sql, &args![redaction.repository, id, redaction.last_event_id, limit]).await?;
    Ok(rows.into_iter().map(StoredEvent::from).collect())
}

/// Stores events without the text. Ends the redaction if the text is gone from all events, and
/// returns whether it ended. The row of the repository must be locked.
pub(crate) async fn store(tx: &mut Tx, redaction: &Redaction, events: &[RedactedEvent]) -> Result<bool, DbError> {
    let (statements, id) = of_subject(redaction.subject);
    let mut query = Query::new(BYTES);
    query.bind_list(events.iter().map(|event| event.id));
    let (before,): (i64,) = tx.one(query.sql(), query.args()).await?;
    let mut after = 0;
    for event in events {
        let fact = event.fact.encode_to_vec();
        let bytes = event_bytes(&fact, event.payload.as_deref());
        after += bytes;
        tx.execute(statements.remove, &args![event.id, fact, event.payload.clone(), bytes]).await?;
    }
    kept_bytes::add(tx, redaction.repository, after - before).await?;
    let args = args![redaction.id, redaction.repository, id, redaction.last_event_id];
    Ok(tx.execute(statements.finish, &args).await? > 0)
}

impl EventTable {
    /// Returns the first redaction with an id above `after`.
    pub(crate) async fn next_redaction(&self, after: i64) -> Result<Option<Redaction>, DbError> {
        let row: Option<RedactionRow> = self.db().optional(NEXT, &args![after]).await?;
        Ok(row.map(|row| Redaction {
            id: row.id,
            repository: RepositoryId(row.repository_id),
            subject: match row.subject {
                1 => Subject::Issue(row.subject_id),
                2 => Subject::Comment(row.subject_id),
                _ => Subject::Review(row.subject_id),
            },
            last_event_id: row.last_event_id,
        }))
    }
}
