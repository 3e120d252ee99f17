use std::collections::VecDeque;
use std::time::Duration;

use ferrite_kit::auth::Caller;
use ferrite_proto::hook::{WatchEventsRequest, WatchEventsResponse};
use ferrite_proto::id::RepositoryId;
use futures_util::stream;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{FeedRpc, encode, parse_cursor};
use crate::error::HookError;
use crate::feed::{FeedItem, FeedReader, MAX_PAGE_EVENTS};

/// Time after which repo-svc is asked again what the reader may read.
const PERMISSION_LIFETIME: Duration = Duration::from_secs(3);

/// A stream of one feed.
struct Watch {
    rpc: FeedRpc,
    reader: FeedReader,
    after: i64,
    items: VecDeque<FeedItem>,
    permitted_until: Instant,
}

/// Returns a repository's feed as a stream.
pub(super) async fn watch_events(
    rpc: &FeedRpc,
    request: Request<WatchEventsRequest>,
) -> Result<<FeedRpc as super::FeedService>::WatchEventsStream, Status> {
    let repository = RepositoryId(request.get_ref().repository_id);
    let grant = rpc.access.authorize(&Caller::of(&request), repository).await?;
    let after = parse_cursor(&request.into_inner().after).map_err(|error| HookError::Invalid(vec![error]))?;
    rpc.check_cursor(after).await?;
    let watch = Watch {
        rpc: rpc.clone(),
        reader: FeedReader::new(&grant)?,
        after,
        items: VecDeque::new(),
        permitted_until: Instant::now() + PERMISSION_LIFETIME,
    };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        Ok(watch.next().await?.map(|response| (response, watch)))
    })))
}

impl Watch {
    /// Returns the next event, as soon as there is one; `None` when the process stops.
    async fn next(&mut self) -> Result<Option<WatchEventsResponse>, Status> {
        loop {
            // A client that reads slowly gets no events that were permitted long ago.
            if Instant::now() >= self.permitted_until {
                let items = std::mem::take(&mut self.items).into();
                self.items = self.rpc.feed.recheck(&mut self.reader, items).await?.into();
                self.renew();
            }
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(WatchEventsResponse { event: Some(encode(item)) }));
            }
            if self.rpc.feed.is_stopping() {
                return Ok(None);
            }
            let deadline = self.permitted_until;
            let page = self.rpc.feed.next_page(&mut self.reader, self.after, MAX_PAGE_EVENTS, deadline).await?;
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
