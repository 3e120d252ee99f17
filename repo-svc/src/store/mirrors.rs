use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::events::MirrorChanged;
use ferrite_proto::id::RepositoryId;

use super::repositories::RepositoryStore;

const APPLY: &str = "UPDATE repositories SET mirror_interval_secs = $2, mirror_last_sync_us = $3, mirror_next_sync_us = $4, \
     mirror_error = $5, mirror_version = $6 WHERE id = $1 AND is_mirror AND mirror_version < $6";
const MAX_ERROR_CHARS: usize = 500;

impl RepositoryStore {
    /// Applies the state of a mirror, unless a later one was applied already.
    pub(crate) async fn apply_mirror(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        change: &MirrorChanged,
    ) -> Result<(), DbError> {
        let Some(state) = &change.state else { return Ok(()) };
        let error: String = state.last_error.chars().filter(|char| !char.is_control()).take(MAX_ERROR_CHARS).collect();
        let last_us = state.last_sync_time.as_ref().map_or(0, |time| micros(time.seconds, time.nanos));
        let next_us = state.next_sync_time.as_ref().map_or(0, |time| micros(time.seconds, time.nanos));
        let args = args![id, state.interval_seconds, last_us, next_us, error, change.version];
        tx.execute(APPLY, &args).await.map(|_| ())
    }
}

/// Returns a time in microseconds since 1970; zero if it is out of range.
fn micros(seconds: i64, nanos: i32) -> i64 {
    seconds.checked_mul(1_000_000).and_then(|us| us.checked_add(i64::from(nanos) / 1_000)).unwrap_or(0)
}
