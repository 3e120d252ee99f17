//! The events of a repository: pages, with a wait for the next event, and server-sent events. An extension of this API.
//!
//! The permission of the caller is checked for each page, and at least every [`MAX_CALL_WAIT`] while nothing happens. hook-svc asks once more
//! before it sends events, because the caller may have lost it in between.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use ferrite_proto::hook::{self, ListEventsRequest, ListEventsResponse};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use futures_util::stream;
use tokio::time::Instant;

use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{FeedEvent, FeedPage};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::path::RepoPath;
use crate::http::query::Query;

/// Events of a page, by default and at most.
const DEFAULT_PAGE_EVENTS: i64 = 50;
const MAX_PAGE_EVENTS: i64 = 100;
/// Longest wait for an event.
const MAX_WAIT_SECONDS: u64 = 60;
/// Longest wait of one call to hook-svc, before which the permission is checked: a caller that lost it hears nothing for longer.
const MAX_CALL_WAIT: Duration = Duration::from_secs(3);
const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";
/// A comment, by which clients and proxies see that the stream lives.
const KEEP_ALIVE: &str = ": \n\n";

routes! {
    "/api/v1/repos/{owner}/{repo}/events" => get list as operation::LIST_EVENTS;
}

/// The feed of one request.
struct FeedReader {
    call: ApiCall,
    /// By its id from the first page on: its name may lead to another repository later.
    repository: RepositoryRef,
    after: String,
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, headers: HeaderMap, query: Query) -> ApiResult {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_stream = accepts.flat_map(|value| value.split(',')).any(|one| {
        one.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(EVENT_STREAM))
    });
    let mut reader = FeedReader { call, repository: path.repository(), after: query.filter("after") };
    if is_stream {
        if let Some(last) = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()) {
            last.clone_into(&mut reader.after);
        }
        return reader.stream().await;
    }
    let limit = query.number("limit").filter(|limit| *limit > 0).unwrap_or(DEFAULT_PAGE_EVENTS).min(MAX_PAGE_EVENTS);
    let wait = query.number("wait").and_then(|wait| u64::try_from(wait).ok()).unwrap_or(0).min(MAX_WAIT_SECONDS);
    let deadline = Instant::now() + Duration::from_secs(wait);
    let page = loop {
        let page = reader.page(limit, deadline.saturating_duration_since(Instant::now())).await?;
        // Also behind events that the caller may not read.
        reader.after.clone_from(&page.cursor);
        if !page.events.is_empty() || Instant::now() >= deadline || reader.call.life.is_stopping() {
            break page;
        }
    };
    let events = page.events.into_iter().map(FeedEvent::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(FeedPage { events, cursor: page.cursor }, HeaderMap::new()))
}

impl FeedReader {
    /// Returns the next page after a check of the permission. Waits at most [`MAX_CALL_WAIT`] for an event.
    async fn page(&mut self, limit: i64, wait: Duration) -> Result<ListEventsResponse, ApiError> {
        let access = self.call.resolve(self.repository.clone(), operation::LIST_EVENTS).await?;
        self.repository = RepositoryRef::by_id(access.id);
        let wait = if self.call.life.is_stopping() { Duration::ZERO } else { wait.min(MAX_CALL_WAIT) };
        // Rounded up, so that the last call of a wait is not one of zero seconds over and over.
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

    /// Returns the feed as server-sent events. It ends when a page fails; the client then connects again and resumes after the last event.
    async fn stream(mut self) -> ApiResult {
        // The status is that of the first page.
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
        let mut response = Response::new(Body::from_stream(pages));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
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

/// Returns a page as server-sent events, and whether all of it could be written.
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
        // JSON has no line break outside of its escapes.
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
