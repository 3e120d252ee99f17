use ferrite_proto::events::Event;

use super::event::kind;
use crate::args;
use crate::db::{DbError, Tx};

const RECORD: &str =
    "INSERT INTO inbox (event_id, repository_id, kind, received_us) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// Records that `event` is being applied in this transaction, and says whether it is the first time. When it is not, the caller
/// does nothing.
///
/// # Errors
/// When the database fails.
pub async fn first_seen(tx: &mut Tx, event: &Event, now_us: i64) -> Result<bool, DbError> {
    let rows = tx.execute(RECORD, &args![event.event_id.as_str(), event.repository_id, kind(event), now_us]).await?;
    Ok(rows == 1)
}
