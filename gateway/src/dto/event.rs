//! Events of a repository's feed.

use ferrite_proto::hook;
use serde::Serialize;
use serde_json::Value;

use ferrite_api_types::convert::{MissingField, time};

/// An event of a repository.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FeedEvent {
    id: String,
    event: String,
    created_at: String,
    payload: Value,
}

/// A page of a feed. The next one begins after the cursor.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FeedPage {
    pub(crate) events: Vec<FeedEvent>,
    pub(crate) cursor: String,
}

impl FeedEvent {
    /// Converts an event.
    ///
    /// # Errors
    /// When its time is missing, or its payload is no JSON.
    pub(crate) fn new(event: hook::FeedEvent) -> Result<Self, MissingField> {
        let payload = serde_json::from_str(&event.payload).map_err(|_| MissingField("payload"))?;
        Ok(Self { id: event.id, event: event.event, created_at: time(event.create_time, "create_time")?, payload })
    }
}
