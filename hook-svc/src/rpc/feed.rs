use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use ferrite_proto::error::{FieldViolation, Kind, ServiceError, to_status};
use ferrite_proto::hook::feed_service_server::FeedService;
use ferrite_proto::hook::{FeedEvent, ListEventsRequest, ListEventsResponse, WatchEventsRequest, WatchEventsResponse};
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::auth::Caller;
use futures_util::{Stream, stream};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::error::HookError;
use crate::feed::{Feed, FeedError, FeedItem, FeedReader, MAX_PAGE_EVENTS};
use crate::state::AppState;

const MAX_WAIT_SECONDS: u64 = 60;
/// How long an answer of repo-svc about a reader's permissions is used.
const PERMISSION_LIFETIME: Duration = Duration::from_secs(3);

#[tonic::async_trait]
impl FeedService for AppState {
    async fn list_events(&self, request: Request<ListEventsRequest>) -> Result<Response<ListEventsResponse>, Status> {
        list_events(self, request).await.map(Response::new)
    }

    type WatchEventsStream = Pin<Box<dyn Stream<Item = Result<WatchEventsResponse, Status>> + Send>>;

    async fn watch_events(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        watch_events(self, request).await.map(Response::new)
    }
}

async fn list_events(state: &AppState, request: Request<ListEventsRequest>) -> Result<ListEventsResponse, Status> {
    let repository = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorizer.authorize(&Caller::of(&request), repository).await?;
    let request = request.into_inner();
    let (after, limit, wait) = check_list(&request)?;
    let mut reader = FeedReader::new(&grant)?;
    let page = state.feed.next_page(&mut reader, after, limit, Instant::now() + wait).await?;
    let cursor = if page.cursor == after { request.after } else { page.cursor.to_string() };
    let events = page.items.into_iter().map(encode).collect();
    Ok(ListEventsResponse { events, cursor })
}

fn check_list(request: &ListEventsRequest) -> Result<(i64, usize, Duration), HookError> {
    let mut violations = Vec::new();
    let after = parse_cursor(&request.after).map_err(|violation| violations.push(violation)).unwrap_or_default();
    let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=MAX_PAGE_EVENTS).contains(limit));
    if limit.is_none() {
        violations.push(FieldViolation::new("limit", "invalid", format!("must be between 1 and {MAX_PAGE_EVENTS}")));
    }
    let wait = u64::try_from(request.wait_seconds).ok().filter(|wait| *wait <= MAX_WAIT_SECONDS);
    if wait.is_none() {
        violations.push(FieldViolation::new("wait", "invalid", format!("must be between 0 and {MAX_WAIT_SECONDS}")));
    }
    match (limit, wait) {
        (Some(limit), Some(wait)) if violations.is_empty() => Ok((after, limit, Duration::from_secs(wait))),
        _ => Err(HookError::Invalid(violations)),
    }
}

async fn watch_events(
    state: &AppState,
    request: Request<WatchEventsRequest>,
) -> Result<<AppState as FeedService>::WatchEventsStream, Status> {
    let repository = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorizer.authorize(&Caller::of(&request), repository).await?;
    let after = parse_cursor(&request.into_inner().after).map_err(|error| HookError::Invalid(vec![error]))?;
    let watch = Watch {
        feed: state.feed.clone(),
        reader: FeedReader::new(&grant)?,
        after,
        items: VecDeque::new(),
        permitted_until: Instant::now() + PERMISSION_LIFETIME,
    };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        Ok(watch.next().await?.map(|response| (response, watch)))
    })))
}

/// The stream of one feed to one reader.
struct Watch {
    feed: Feed,
    reader: FeedReader,
    after: i64,
    items: VecDeque<FeedItem>,
    permitted_until: Instant,
}

impl Watch {
    /// Waits for the next event. Returns `None` when the process stops.
    async fn next(&mut self) -> Result<Option<WatchEventsResponse>, Status> {
        loop {
            // Check buffered events again: a slow client must not receive what was permitted long
            // ago.
            if Instant::now() >= self.permitted_until {
                let items = std::mem::take(&mut self.items).into();
                self.items = self.feed.recheck(&mut self.reader, items).await?.into();
                self.renew();
            }
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(WatchEventsResponse { event: Some(encode(item)) }));
            }
            if self.feed.is_stopping() {
                return Ok(None);
            }
            let deadline = self.permitted_until;
            let page = self.feed.next_page(&mut self.reader, self.after, MAX_PAGE_EVENTS, deadline).await?;
            if !page.items.is_empty() {
                self.renew();
            }
            self.after = page.looked_at;
            self.items = page.items.into();
        }
    }

    fn renew(&mut self) {
        self.permitted_until = Instant::now() + PERMISSION_LIFETIME;
    }
}

/// Parses a cursor. An empty one starts before the oldest event.
fn parse_cursor(text: &str) -> Result<i64, FieldViolation> {
    if text.is_empty() {
        return Ok(0);
    }
    let cursor = text.parse().ok().filter(|cursor| *cursor >= 0);
    cursor.ok_or_else(|| FieldViolation::new("after", "invalid", "must be a cursor from an earlier response"))
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
            // The kit converts these, so that all services report them the same way.
            FeedError::Access(error) => error.into(),
            FeedError::Store(ref cause) => {
                cause.log("reading a feed");
                to_status(&error)
            }
            FeedError::PayloadsUnavailable => to_status(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_place_in_the_feed() {
        assert_eq!(parse_cursor(""), Ok(0));
        assert_eq!(parse_cursor("0"), Ok(0));
        assert_eq!(parse_cursor("9223372036854775807"), Ok(i64::MAX));
        for wrong in ["-1", "x", "1 ", "9223372036854775808"] {
            assert_eq!(parse_cursor(wrong).unwrap_err().field, "after", "{wrong:?}");
        }
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
        let request = |after: &str, limit, wait_seconds| ListEventsRequest {
            repository_id: 1,
            after: after.to_owned(),
            limit,
            wait_seconds,
        };
        assert!(check_list(&request("7", 1, 0)).is_ok());
        assert!(check_list(&request("", 100, 60)).is_ok());
        for wrong in [request("x", 0, -1), request("-1", 101, 61)] {
            let error = check_list(&wrong).unwrap_err();
            let fields: Vec<_> = error.violations().into_iter().map(|violation| violation.field).collect();
            assert_eq!(fields, ["after", "limit", "wait"]);
        }
    }
}
