use ferrite_proto::events::Event;

use super::event::kind;
use crate::args;
use crate::db::{DbError, Tx};

const RECORD: &str =
    "INSERT INTO inbox (event_id, repository_id, kind, received_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// Records in the transaction that `event` is applied. Returns whether this is the first time; if not, the caller must not apply it
/// again.
///
/// # Errors
/// When the database fails.
pub async fn first_seen(tx: &mut Tx, event: &Event, now_us: i64) -> Result<bool, DbError> {
    let rows = tx.execute(RECORD, &args![event.event_id.as_str(), event.repository_id, kind(event), now_us]).await?;
    Ok(rows == 1)
}
