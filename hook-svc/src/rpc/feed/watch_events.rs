use std::collections::VecDeque;
use std::time::Duration;

use ferrite_kit::auth::Caller;
use ferrite_proto::hook::{WatchEventsRequest, WatchEventsResponse};
use ferrite_proto::id::RepositoryId;
use futures_util::stream;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{FeedRpc, MAX_PAGE_EVENTS, encode, hidden_source, parse_cursor};
use crate::error::HookError;
use crate::feed::FeedItem;
use crate::store::events::Source;

/// Time after which the permission is looked up again.
const PERMISSION_LIFETIME: Duration = Duration::from_secs(3);

/// A stream of one feed.
struct Watch {
    rpc: FeedRpc,
    caller: Caller,
    repository: RepositoryId,
    after: i64,
    items: VecDeque<FeedItem>,
    /// The source whose events are hidden.
    hidden: Option<Source>,
    permitted_until: Instant,
}

/// Returns a repository's feed as a stream.
pub(super) async fn watch_events(
    rpc: &FeedRpc,
    request: Request<WatchEventsRequest>,
) -> Result<<FeedRpc as super::FeedService>::WatchEventsStream, Status> {
    let repository = RepositoryId(request.get_ref().repository_id);
    let caller = Caller::of(&request);
    let grant = rpc.access.authorize(&caller, repository).await?;
    let after = parse_cursor(&request.into_inner().after).map_err(|error| HookError::Invalid(vec![error]))?;
    let watch = Watch {
        rpc: rpc.clone(),
        caller,
        repository,
        after,
        items: VecDeque::new(),
        hidden: hidden_source(&grant),
        permitted_until: Instant::now() + PERMISSION_LIFETIME,
    };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        Ok(watch.next().await?.map(|response| (response, watch)))
    })))
}

impl Watch {
    /// Returns the next event, as soon as there is one; `None` when the permission cannot be looked up again, or the process stops.
    async fn next(&mut self) -> Result<Option<WatchEventsResponse>, Status> {
        loop {
            if Instant::now() >= self.permitted_until && !self.renew().await? {
                return Ok(None);
            }
            if let Some(item) = self.items.pop_front() {
                self.after = item.event.id;
                return Ok(Some(WatchEventsResponse { event: Some(encode(item)) }));
            }
            if self.rpc.feed.is_stopping() {
                return Ok(None);
            }
            let (hidden, deadline) = (self.hidden, self.permitted_until);
            let page = self.rpc.feed.next_page(self.repository, self.after, MAX_PAGE_EVENTS, hidden, deadline);
            self.items = page.await?.into();
        }
    }

    /// Looks the permission up again, by the token. Returns false for a caller with a grant and without a token.
    async fn renew(&mut self) -> Result<bool, Status> {
        if self.caller.token.is_none() {
            return Ok(false);
        }
        self.caller.grant = None;
        self.hidden = hidden_source(self.rpc.access.authorize(&self.caller, self.repository).await?.as_ref());
        self.permitted_until = Instant::now() + PERMISSION_LIFETIME;
        Ok(true)
    }
}
