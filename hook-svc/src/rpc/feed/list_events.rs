use std::time::Duration;

use ferrite_kit::auth::Caller;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::hook::{ListEventsRequest, ListEventsResponse};
use ferrite_proto::id::RepositoryId;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{FeedRpc, encode, parse_cursor};
use crate::error::HookError;
use crate::feed::{FeedReader, MAX_PAGE_EVENTS};

/// Longest wait for an event.
const MAX_WAIT_SECONDS: u64 = 60;

/// Returns a page of a repository's feed.
pub(super) async fn list_events(
    rpc: &FeedRpc,
    request: Request<ListEventsRequest>,
) -> Result<ListEventsResponse, Status> {
    let repository = RepositoryId(request.get_ref().repository_id);
    let grant = rpc.access.authorize(&Caller::of(&request), repository).await?;
    let request = request.into_inner();
    let (after, limit, wait) = check(&request)?;
    rpc.check_cursor(after).await?;
    let mut reader = FeedReader::new(&grant)?;
    let page = rpc.feed.next_page(&mut reader, after, limit, Instant::now() + wait).await?;
    let cursor = if page.cursor == after { request.after } else { page.cursor.to_string() };
    let events = page.items.into_iter().map(encode).collect();
    Ok(ListEventsResponse { events, cursor })
}

/// Checks the fields of a request.
pub(super) fn check(request: &ListEventsRequest) -> Result<(i64, usize, Duration), HookError> {
    let mut violations = Vec::new();
    let after = parse_cursor(&request.after).map_err(|violation| violations.push(violation)).unwrap_or_default();
    let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=MAX_PAGE_EVENTS).contains(limit));
    if limit.is_none() {
        violations.push(FieldViolation::new("limit", "invalid", format!("must be from 1 to {MAX_PAGE_EVENTS}")));
    }
    let wait = u64::try_from(request.wait_seconds).ok().filter(|wait| *wait <= MAX_WAIT_SECONDS);
    if wait.is_none() {
        violations.push(FieldViolation::new("wait", "invalid", format!("must be from 0 to {MAX_WAIT_SECONDS}")));
    }
    match (limit, wait) {
        (Some(limit), Some(wait)) if violations.is_empty() => Ok((after, limit, Duration::from_secs(wait))),
        _ => Err(HookError::Invalid(violations)),
    }
}
