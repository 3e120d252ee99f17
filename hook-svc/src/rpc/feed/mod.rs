//! The RPCs of feeds.
//!
//! Not here: payloads and waiting (`feed`).

mod list_events;
#[cfg(test)]
mod tests;
mod watch_events;

use std::pin::Pin;

use ferrite_kit::auth::Access;
use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::hook::feed_service_server::FeedService;
use ferrite_proto::hook::{FeedEvent, ListEventsRequest, ListEventsResponse, WatchEventsRequest, WatchEventsResponse};
use futures_util::Stream;
use tonic::{Request, Response, Status};

use crate::error::HookError;
use crate::feed::{Feed, FeedError, FeedItem};

/// The services that the RPCs of feeds use.
#[derive(Clone, Debug)]
pub(crate) struct FeedRpc {
    pub(crate) feed: Feed,
    pub(crate) access: Access,
}

#[tonic::async_trait]
impl FeedService for FeedRpc {
    async fn list_events(&self, request: Request<ListEventsRequest>) -> Result<Response<ListEventsResponse>, Status> {
        list_events::list_events(self, request).await.map(Response::new)
    }

    type WatchEventsStream = Pin<Box<dyn Stream<Item = Result<WatchEventsResponse, Status>> + Send>>;

    async fn watch_events(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        watch_events::watch_events(self, request).await.map(Response::new)
    }
}

impl ServiceError for FeedError {
    fn classify(&self) -> (Kind, &'static str) {
        match self {
            Self::PayloadsUnavailable => (Kind::Overloaded, "PAYLOADS_UNAVAILABLE"),
            Self::Access(error) => error.classify(),
            Self::Store(error) => error.classify(),
        }
    }

    fn domain(&self) -> &'static str {
        match self {
            Self::Access(error) => error.domain(),
            Self::PayloadsUnavailable | Self::Store(_) => "hook",
        }
    }
}

impl From<FeedError> for Status {
    fn from(error: FeedError) -> Self {
        match error {
            // Converted by the kit, so that all services report them alike.
            FeedError::Access(error) => error.into(),
            FeedError::Store(ref cause) => {
                cause.log("the reading of a feed");
                to_status(&error)
            }
            FeedError::PayloadsUnavailable => to_status(&error),
        }
    }
}

/// Parses a cursor; an empty one stands before the oldest event.
fn parse_cursor(text: &str) -> Result<i64, FieldViolation> {
    if text.is_empty() {
        return Ok(0);
    }
    let cursor = text.parse().ok().filter(|cursor| *cursor >= 0);
    cursor.ok_or_else(|| FieldViolation::new("after", "invalid", "must be the cursor of a response or of an event"))
}

impl FeedRpc {
    /// Checks that a cursor is one that a reader can have got from this database.
    ///
    /// # Errors
    /// [`HookError::Invalid`], or a failure of the database.
    async fn check_cursor(&self, cursor: i64) -> Result<(), HookError> {
        if !self.feed.is_ahead(cursor).await? {
            return Ok(());
        }
        let message = "is after the newest event: leave it out to begin with the oldest";
        Err(HookError::Invalid(vec![FieldViolation::new("after", "invalid", message)]))
    }
}

fn encode(item: FeedItem) -> FeedEvent {
    FeedEvent {
        id: item.event.uuid,
        cursor: item.event.id.to_string(),
        event: item.event.name,
        create_time: item.event.fact.event_time,
        payload: item.payload,
    }
}
