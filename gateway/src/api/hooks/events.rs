//! The events of a repository: pages, with long polling, and server-sent events. Gogs does not have
//! them.
//!
//! The caller's permission is checked for each page, and at least every [`MAX_CALL_WAIT`] while
//! nothing happens. hook-svc checks again before it sends events, because the permission may have
//! been revoked in between.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::ACCEPT;
use bytes::Bytes;
use ferrite_api_types::convert::MissingField;
use ferrite_proto::hook::{self, ListEventsRequest, ListEventsResponse};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{LooseInteger, QueryOf, Search, filters};
use crate::http::headers::{HeaderNames, Headers};
use crate::http::json;
use crate::http::path::RepoPath;
use crate::http::request::Time;
use crate::http::response::{CursorPage, EVENT_STREAM, Either, EventStream};

const DEFAULT_PAGE_EVENTS: i64 = 50;
const MAX_PAGE_EVENTS: i64 = 100;
const MAX_WAIT_SECONDS: u64 = 60;
/// Longest wait of one call to hook-svc, and so between permission checks.
const MAX_CALL_WAIT: Duration = Duration::from_secs(3);
const LAST_EVENT_ID: &str = "Last-Event-ID";
/// A comment that shows clients and proxies that the stream is alive.
const KEEP_ALIVE: &str = ": \n\n";

operations! {
    "/api/v1/repos/{owner}/{repo}/events" => get list as operation::LIST_EVENTS;
}

filters! {
    /// The part of a feed to return.
    struct FeedFilters {
        /// The cursor of a page or of an event, after which the page starts. By default it starts
        /// with the oldest stored event.
        after: Search = "12",
        /// The number of events per page, 50 by default and at most 100. Ignored by streams, which
        /// send all events.
        limit: LooseInteger = 100,
        /// How many seconds to wait for the next event, from 0 (the default) to 60. Streams always
        /// wait.
        wait: LooseInteger = 30,
    }
}

enum ResumeHeaders {}

impl HeaderNames for ResumeHeaders {
    const HEADERS: &'static [(&'static str, &'static str)] =
        &[(LAST_EVENT_ID, "The id of the last event received from a stream. Takes the place of `after`.")];
}

ferrite_api_types::shape! {
    /// An event of a repository.
    #[derive(Clone, Debug, Serialize)]
    struct FeedEvent {
        /// A UUID.
        id: String,
        /// The name of the event, such as `push`.
        event: String,
        created_at: Time,
        /// The payload that webhooks of type `native` send.
        payload: Value,
    }
}

ferrite_api_types::shape! {
    /// A page of a feed. The next page starts after the cursor.
    #[derive(Clone, Debug, Serialize)]
    struct FeedPage {
        events: Vec<FeedEvent>,
        cursor: String,
    }
}

impl FeedEvent {
    /// Fails if the time is missing or the payload is not JSON.
    fn new(event: hook::FeedEvent) -> Result<Self, MissingField> {
        let payload = serde_json::from_str(&event.payload).map_err(|_| MissingField("payload"))?;
        let created_at = Time::new(event.create_time, "create_time")?;
        Ok(Self { id: event.id, event: event.event, created_at, payload })
    }
}

struct FeedReader {
    call: ApiCall,
    /// By its id from the first page on, because the name may move to another repository.
    repository: RepositoryRef,
    after: String,
}

async fn list(
    Authenticated(call): Authenticated,
    path: RepoPath,
    headers: Headers<ResumeHeaders>,
    filters: QueryOf<FeedFilters>,
) -> ApiResult<Either<EventStream, CursorPage<FeedPage>>> {
    let accepts = headers.map.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_stream = accepts.flat_map(|value| value.split(',')).any(|one| {
        one.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(EVENT_STREAM))
    });
    let FeedFilters { after, limit, wait } = filters.read()?;
    let mut reader = FeedReader { call, repository: path.repository(), after };
    if is_stream {
        if let Some(last) = headers.map.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()) {
            last.clone_into(&mut reader.after);
        }
        return reader.stream().await.map(Either::First);
    }
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_PAGE_EVENTS).min(MAX_PAGE_EVENTS);
    let wait = wait.and_then(|wait| u64::try_from(wait).ok()).unwrap_or(0).min(MAX_WAIT_SECONDS);
    let deadline = Instant::now() + Duration::from_secs(wait);
    let page = loop {
        let page = reader.page(limit, deadline.saturating_duration_since(Instant::now())).await?;
        // This also skips events that the caller may not read.
        reader.after.clone_from(&page.cursor);
        if !page.events.is_empty() || Instant::now() >= deadline || reader.call.life.is_stopping() {
            break page;
        }
    };
    let events = page.events.into_iter().map(FeedEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(Either::Second(CursorPage(FeedPage { events, cursor: page.cursor })))
}

impl FeedReader {
    /// Checks the permission and returns the next page. Waits up to [`MAX_CALL_WAIT`] for an event.
    async fn page(&mut self, limit: i64, wait: Duration) -> Result<ListEventsResponse, ApiError> {
        let access = self.call.resolve(self.repository.clone(), operation::LIST_EVENTS).await?;
        self.repository = RepositoryRef::by_id(access.id);
        let wait = if self.call.life.is_stopping() { Duration::ZERO } else { wait.min(MAX_CALL_WAIT) };
        // Round up, so that the end of a wait does not become a loop of calls with zero seconds.
        let wait_seconds = wait.as_millis().div_ceil(1000);
        let request = ListEventsRequest {
            repository_id: access.id,
            after: self.after.clone(),
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
            wait_seconds: i32::try_from(wait_seconds).unwrap_or(i32::MAX),
        };
        let request = self.call.request_with_grant(&access.grant, request);
        Ok(self.call.clients.feeds().list_events(request).await?.into_inner())
    }

    /// Returns the feed as server-sent events. It ends when a page fails; the client then
    /// reconnects and resumes after the last event.
    async fn stream(mut self) -> ApiResult<EventStream> {
        // The first page determines the status.
        let first = self.page(MAX_PAGE_EVENTS, Duration::ZERO).await?;
        let pages = stream::unfold(Some((self, Some(first))), |state| async move {
            let (mut reader, first) = state?;
            let page = match first {
                Some(page) => page,
                None => reader.next_page().await?,
            };
            reader.after.clone_from(&page.cursor);
            let (text, is_whole) = encode(page);
            Some((Ok::<_, Infallible>(Bytes::from(text)), is_whole.then_some((reader, None))))
        });
        Ok(EventStream(Body::from_stream(pages)))
    }

    /// Returns the next page of a stream; `None` when the stream ends.
    async fn next_page(&mut self) -> Option<ListEventsResponse> {
        let life = self.call.life.clone();
        tokio::select! {
            () = life.stopping() => None,
            page = self.page(MAX_PAGE_EVENTS, MAX_CALL_WAIT) => page.ok(),
        }
    }
}

/// Encodes a page as server-sent events. The second value is false if an event could not be
/// encoded.
fn encode(page: ListEventsResponse) -> (String, bool) {
    if page.events.is_empty() {
        return (KEEP_ALIVE.to_owned(), true);
    }
    let mut text = String::new();
    for event in page.events {
        let hook::FeedEvent { cursor, event: name, .. } = &event;
        let head = format!("id: {cursor}\nevent: {name}\ndata: ");
        let Ok(event) = FeedEvent::new(event) else { return (text, false) };
        text.push_str(&head);
        // JSON escapes line breaks.
        text.push_str(&String::from_utf8_lossy(&json::encode(&event)));
        text.push_str("\n\n");
    }
    (text, true)
}

#[cfg(test)]
mod tests {
    use ferrite_core::timestamp;

    use super::*;

    #[test]
    fn events_of_a_stream_have_their_cursors_as_ids() {
        let event = hook::FeedEvent {
            id: "35fc99fc".into(),
            cursor: "12".into(),
            event: "push".into(),
            create_time: Some(timestamp(0)),
            payload: "{\"ref\":\"a\\nb\"}".into(),
        };
        let page = ListEventsResponse { events: vec![event.clone(), event], cursor: "12".into() };
        let one = "id: 12\nevent: push\ndata: {\"id\":\"35fc99fc\",\"event\":\"push\",\"created_at\":\"1970-01-01T00:00:00Z\",\
             \"payload\":{\"ref\":\"a\\nb\"}}\n\n";
        assert_eq!(encode(page), (format!("{one}{one}"), true));
        assert_eq!(encode(ListEventsResponse::default()), (KEEP_ALIVE.to_owned(), true));
    }
}
